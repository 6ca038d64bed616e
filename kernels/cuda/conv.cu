// The patches of images, and back: what a convolution needs beside the product.
#include "kernels/cuda/common.cuh"

namespace troupe::kernels::cuda {
namespace {

struct Shape {
  std::size_t batch, height, width, channels, kernel, stride, out_height, out_width;
};

/// All are 0 when no patch fits.
Shape shape_of(const PatchArguments& a) {
  if (a.kernel == 0 || a.stride == 0 || a.kernel > a.height || a.kernel > a.width) return {};
  return {a.batch, a.height, a.width, a.channels, a.kernel, a.stride,
          (a.height - a.kernel) / a.stride + 1, (a.width - a.kernel) / a.stride + 1};
}

// A thread writes numbers of patches; neighbours read neighbours, but for the ends of a patch's rows.
__global__ void take_patches(Shape s, std::size_t count, const float* images, float* patches) {
  for (std::size_t i = global_thread(); i < count; i += global_stride()) {
    std::size_t rest = i / s.channels;
    const std::size_t channel = i % s.channels, x = rest % s.kernel;
    rest /= s.kernel;
    const std::size_t y = rest % s.kernel;
    rest /= s.kernel;
    const std::size_t column = rest % s.out_width;
    rest /= s.out_width;
    const std::size_t row = rest % s.out_height, image = rest / s.out_height;
    patches[i] = images[((image * s.height + row * s.stride + y) * s.width + column * s.stride + x) * s.channels +
                        channel];
  }
}

// A thread gathers what all patches say of numbers of an image, in the patches' order (CK-4).
__global__ void add_patches(Shape s, std::size_t count, const float* slopes, float* images) {
  for (std::size_t i = global_thread(); i < count; i += global_stride()) {
    std::size_t rest = i / s.channels;
    const std::size_t channel = i % s.channels, x = rest % s.width;
    rest /= s.width;
    const std::size_t y = rest % s.height, image = rest / s.height;
    const std::size_t first_row = y < s.kernel ? 0 : (y - s.kernel) / s.stride + 1;
    const std::size_t first_column = x < s.kernel ? 0 : (x - s.kernel) / s.stride + 1;
    float sum = 0;
    for (std::size_t row = first_row; row < s.out_height && row * s.stride <= y; ++row) {
      for (std::size_t column = first_column; column < s.out_width && column * s.stride <= x; ++column) {
        const std::size_t patch = (image * s.out_height + row) * s.out_width + column;
        const std::size_t within = (y - row * s.stride) * s.kernel + (x - column * s.stride);
        sum += slopes[(patch * s.kernel * s.kernel + within) * s.channels + channel];
      }
    }
    images[i] = sum;
  }
}

}  // namespace

int patches_forward(Call call, const PatchArguments* a) {
  const Shape s = shape_of(*a);
  if (s.kernel == 0) return kInvalidValue;
  const std::size_t count = s.batch * s.out_height * s.out_width * s.kernel * s.kernel * s.channels;
  return launch(call, take_patches, grid_for(count), kThreads, s, count, a->in, a->out);
}

int patches_backward(Call call, const PatchArguments* a) {
  const Shape s = shape_of(*a);
  if (s.kernel == 0) return kInvalidValue;
  const std::size_t count = s.batch * s.height * s.width * s.channels;
  return launch(call, add_patches, grid_for(count), kThreads, s, count, a->in, a->out);
}

}  // namespace troupe::kernels::cuda
