// Two-dimensional convolution (cross-correlation, as every deep-learning library calls it) without padding.
//
// Images are [batch][height][width][channels], so a patch's row is contiguous memory; weights are
// [filters][kernel][kernel][channels], so a filter is a row of a matrix and the convolution is a product of matrices:
// the patches of all images, one a row, times the filters.
//
// Pure; any thread. T is float or double; double always runs the reference (MM-1).
//
// CVL-1  Output pixel (r, c) of filter f is bias[f] + the sum over (i, j, ch) of
//        x[r stride + i][c stride + j][ch] w[f][i][j][ch]; the output is as large as fits without padding.
// CVL-2  `patches` is the caller's, patch_count() numbers; backward needs those of the forward just before it.
// CVL-3  dw and dbias are added to; dx is written, or not wanted when null.
#pragma once

#include <cstddef>

#include "kernels/cpu/isa/isa.h"

namespace troupe::kernels {

struct ConvShape {
  std::size_t batch = 0, height = 0, width = 0, channels = 0;
  std::size_t filters = 0, kernel = 1, stride = 1;  ///< kernel is at most height and width, stride at least 1

  [[nodiscard]] constexpr std::size_t out_height() const { return (height - kernel) / stride + 1; }
  [[nodiscard]] constexpr std::size_t out_width() const { return (width - kernel) / stride + 1; }
  [[nodiscard]] constexpr std::size_t patch_size() const { return kernel * kernel * channels; }
  [[nodiscard]] constexpr std::size_t patch_rows() const { return batch * out_height() * out_width(); }
  [[nodiscard]] constexpr std::size_t patch_count() const { return patch_rows() * patch_size(); }
};

/// y [batch][out_height][out_width][filters].
template <class T>
void conv2d_forward(Isa isa, const ConvShape& shape, const T* x, const T* w, const T* bias, T* patches, T* y);

template <class T>
struct ConvGradients {
  T* dx = nullptr;
  T* dw = nullptr;
  T* dbias = nullptr;
  T* dpatches = nullptr;  ///< scratch of patch_count() numbers; needed with dx only
};
template <class T>
void conv2d_backward(Isa isa, const ConvShape& shape, const T* patches, const T* w, const T* dy,
                     const ConvGradients<T>& gradients);

}  // namespace troupe::kernels
