#include "kernels/cpu/conv/conv.h"

#include <algorithm>

#include "kernels/cpu/linear/matmul.h"

namespace troupe::kernels {
namespace {

/// visit(number in the image, number in the patches, count) for each row of a patch: `count` numbers lie side by side
/// in both.
template <class Visit>
void each_patch_row(const ConvShape& s, Visit visit) {
  const std::size_t count = s.kernel * s.channels, image = s.height * s.width * s.channels;
  std::size_t patch = 0;
  for (std::size_t b = 0; b < s.batch; ++b) {
    for (std::size_t r = 0; r < s.out_height(); ++r) {
      for (std::size_t c = 0; c < s.out_width(); ++c) {
        for (std::size_t i = 0; i < s.kernel; ++i, patch += count)
          visit(b * image + ((r * s.stride + i) * s.width + c * s.stride) * s.channels, patch, count);
      }
    }
  }
}

LinearShape as_linear(const ConvShape& s) { return {.rows = s.patch_rows(), .in = s.patch_size(), .out = s.filters}; }

}  // namespace

template <class T>
void conv2d_forward(Isa isa, const ConvShape& shape, const T* x, const T* w, const T* bias, T* patches, T* y) {
  each_patch_row(shape, [&](std::size_t from, std::size_t to, std::size_t count) {
    std::copy_n(x + from, count, patches + to);
  });
  linear_forward(isa, as_linear(shape), patches, w, bias, y);
}

template <class T>
void conv2d_backward(Isa isa, const ConvShape& shape, const T* patches, const T* w, const T* dy,
                     const ConvGradients<T>& gradients) {
  linear_backward(isa, as_linear(shape), patches, w, dy,
                  LinearGradients<T>{.dx = gradients.dx != nullptr ? gradients.dpatches : nullptr,
                                     .dw = gradients.dw,
                                     .dbias = gradients.dbias});
  if (gradients.dx == nullptr) return;
  std::fill_n(gradients.dx, shape.batch * shape.height * shape.width * shape.channels, T{0});
  each_patch_row(shape, [&](std::size_t to, std::size_t from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) gradients.dx[to + i] += gradients.dpatches[from + i];
  });
}

template void conv2d_forward<float>(Isa, const ConvShape&, const float*, const float*, const float*, float*, float*);
template void conv2d_forward<double>(Isa, const ConvShape&, const double*, const double*, const double*, double*,
                                     double*);
template void conv2d_backward<float>(Isa, const ConvShape&, const float*, const float*, const float*,
                                     const ConvGradients<float>&);
template void conv2d_backward<double>(Isa, const ConvShape&, const double*, const double*, const double*,
                                      const ConvGradients<double>&);

}  // namespace troupe::kernels
