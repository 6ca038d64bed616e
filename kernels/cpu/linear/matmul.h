// Matrix products: C = A B, with either factor transposed in place, a row added, or added to what is there; and
// products of a matrix and a vector.
//
// Pure; any thread. Scratch memory for packed factors is kept per thread, grows to the largest need and is reused.
//
// MM-1  float runs the version of the instruction set; double always runs the reference.
// MM-2  The sum over k is taken in an order that depends on k and the instruction set only, not on the thread, the
//       addresses or earlier calls. Rows of C do not influence each other.
// MM-3  C may not overlap A, B or the bias; the residual is C itself or does not overlap it.
// MM-4  A product with all terms of a PackedFactor has the same bits as the one with the factor that it was packed
//       from.
// MM-5  matvec sums in an order of its own, which depends on k and the instruction set only.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "kernels/cpu/isa/isa.h"

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
  const T* residual = nullptr;  ///< rows as far apart as those of C, added; null: nothing. Not together with accumulate
};

namespace detail {

/// Floats at a cache line's border; what it holds is lost when it grows.
class AlignedFloats {
 public:
  float* at_least(std::size_t count) {
    if (count > count_) {
      count_ = 0;
      memory_.reset();
      memory_.reset(static_cast<float*>(::operator new[](count * sizeof(float), std::align_val_t{64})));
      count_ = count;
    }
    return memory_.get();
  }
  const float* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(float* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<float[], Free> memory_;
  std::size_t count_ = 0;
};

}  // namespace detail

/// A factor B [k][n] that serves many products, arranged once for all of them: a product of few rows costs as much to
/// arrange B for as to calculate. Refers to B, which stays in place and unchanged while this is used; keeps its memory
/// from one B to the next. Any number of threads may multiply by it while nobody packs it.
template <class T>
class PackedFactor {
 public:
  void pack(Isa isa, std::size_t k, std::size_t n, const MatmulFactor<T>& b);
  const MatmulFactor<T>& source() const { return source_; }
  std::size_t k() const { return k_; }
  std::size_t n() const { return n_; }
  /// Null where nothing is arranged for that instruction set.
  const float* panels(Isa isa) const { return packed_ && isa == isa_ ? memory_.data() : nullptr; }

 private:
  MatmulFactor<T> source_;
  std::size_t k_ = 0, n_ = 0;
  Isa isa_ = Isa::kReference;
  bool packed_ = false;
  detail::AlignedFloats memory_;
};

template <class T>
void matmul(Isa isa, const MatmulShape& shape, const MatmulFactor<T>& a, const MatmulFactor<T>& b,
            const MatmulResult<T>& c);
/// The same with a B that was packed, best for that instruction set: its first shape.k terms and shape.n columns, at
/// most all.
template <class T>
void matmul(Isa isa, const MatmulShape& shape, const MatmulFactor<T>& a, const PackedFactor<T>& b,
            const MatmulResult<T>& c);

/// y = A x + bias, A [m][k] dense: a layer for a single row. A product would calculate a register of columns for it.
template <class T>
void matvec(Isa isa, std::size_t m, std::size_t k, const T* a, const T* x, const T* bias, T* y);

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

/// A B [k][n] as pack_b leaves it; no panels: it is packed on the way.
struct MatmulPanels {
  const float* panels = nullptr;
  std::size_t k = 0, n = 0;
};
/// One call of a vector version.
struct MatmulCall {
  MatmulShape shape;
  MatmulFactor<float> a, b;
  MatmulPanels packed_b;
  MatmulResult<float> c;
  AlignedFloats* scratch;
};
struct MatmulVersion {
  void (*run)(const MatmulCall&);
  std::size_t (*packed_size)(std::size_t k, std::size_t n);  // floats
  void (*pack_b)(std::size_t k, std::size_t n, const MatmulFactor<float>& b, float* packed);
  void (*add_rows)(const float* rows, std::size_t count, std::size_t columns, float* sums);  // sums[c] += rows[r][c]
  void (*matvec)(std::size_t m, std::size_t k, const float* a, const float* x, const float* bias, float* y);
};
const MatmulVersion* matmul_avx2();  // null where it was not built
const MatmulVersion* matmul_avx512();

}  // namespace detail
}  // namespace troupe::kernels
