// Matrix products: C = A B, with either factor transposed in place, a row added, or added to what is there.
//
// Pure; any thread. Scratch memory for the packed factor is kept per thread and reused.
//
// MM-1  float runs the version of the instruction set; double always runs the reference.
// MM-2  The sum over k is taken in an order that depends on the shape and the instruction set only, not on the thread,
//       the addresses or earlier calls. Rows of C do not influence each other.
// MM-3  C may not overlap A, B or the bias.
#pragma once

#include <cstddef>

#include "kernels/isa.h"

namespace troupe::kernels {

struct MatmulShape {
  std::size_t m = 0, n = 0, k = 0;  ///< C is [m][n], the sums have k terms
};

/// A factor, row-major: element (r, c) is data[r * stride + c], or data[c * stride + r] when transposed.
template <class T>
struct MatmulFactor {
  const T* data = nullptr;
  std::size_t stride = 0;
  bool transposed = false;
};

template <class T>
struct MatmulResult {
  T* data = nullptr;
  std::size_t stride = 0;
  bool accumulate = false;  ///< adds to C instead of writing it
  const T* bias = nullptr;  ///< [n], added to every row; may be null
};

template <class T>
void matmul(Isa isa, const MatmulShape& shape, const MatmulFactor<T>& a, const MatmulFactor<T>& b,
            const MatmulResult<T>& c);

/// A fully connected layer: y = x w^T + bias, x [rows][in], w [out][in], y [rows][out], all dense.
struct LinearShape {
  std::size_t rows = 0, in = 0, out = 0;
};
template <class T>
void linear_forward(Isa isa, const LinearShape& shape, const T* x, const T* w, const T* bias, T* y);
template <class T>
struct LinearGradients {
  T* dx = nullptr;     ///< written; null: not wanted
  T* dw = nullptr;     ///< added to
  T* dbias = nullptr;  ///< added to; null: there is no bias
};
template <class T>
void linear_backward(Isa isa, const LinearShape& shape, const T* x, const T* w, const T* dy,
                     const LinearGradients<T>& gradients);

namespace detail {

/// One call of a vector version; scratch holds matmul_scratch_floats(), 64-byte aligned.
struct MatmulCall {
  MatmulShape shape;
  MatmulFactor<float> a, b;
  MatmulResult<float> c;
  float* scratch;
};
struct MatmulVersion {
  void (*run)(const MatmulCall&);
  void (*add_rows)(const float* rows, std::size_t count, std::size_t columns, float* sums);  // sums[c] += rows[r][c]
};
inline constexpr std::size_t kMatmulDepth = 256;    // terms of a sum per pass
inline constexpr std::size_t kMatmulColumns = 512;  // columns of B packed at a time: half of a small L2 with kMatmulDepth
inline constexpr std::size_t kMatmulRows = 240;     // rows of A per pass: a multiple of every tile height
constexpr std::size_t matmul_scratch_floats() { return kMatmulDepth * (kMatmulColumns + kMatmulRows); }
const MatmulVersion* matmul_avx2();  // null where it was not built
const MatmulVersion* matmul_avx512();

}  // namespace detail
}  // namespace troupe::kernels
