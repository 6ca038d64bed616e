// Kernels on the rows of a matrix: LayerNorm, RMSNorm, softmax, GELU and cross-entropy, forward and backward.
//
// Pure; any thread. Matrices are dense and row-major. T is float or double; double always runs the reference.
//
// RW-1  Gradients of parameters (dw, db) are added to what is there; gradients of inputs are written.
// RW-2  A row depends on that row only: the same bits for any number of rows.
// RW-3  Outputs may be exactly one of the inputs where a function says "in place"; no other overlap.
// RW-4  Variance is taken around the mean in a second pass: rows far from zero keep their digits.
// RW-5  NaN in a row makes that row's results NaN, and no other row's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/isa.h"

namespace troupe::kernels {

struct RowsShape {
  std::size_t rows = 0, columns = 0;
};

/// What backward needs of forward: [rows] each. RMSNorm has no mean.
template <class T>
struct NormStatistics {
  T* mean = nullptr;
  T* rstd = nullptr;
};

/// y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(variance + epsilon), the variance biased.
template <class T>
void layernorm_forward(Isa isa, RowsShape shape, const T* x, const T* w, const T* b, T* y,
                       const NormStatistics<T>& statistics, T epsilon = T(1e-5));
/// The y of a forward pass again, the same bits, from its statistics: cheaper than keeping it.
template <class T>
void layernorm_again(Isa isa, RowsShape shape, const T* x, const T* w, const T* b, const NormStatistics<T>& statistics,
                     T* y);
/// residual, when not null, is added to dx: the gradient that went round the norm. dx in place of dy or of residual is
/// allowed.
template <class T>
void layernorm_backward(Isa isa, RowsShape shape, const T* x, const T* w, const NormStatistics<T>& statistics,
                        const T* dy, T* dx, T* dw, T* db, const T* residual = nullptr);

/// y = x * rstd * w, rstd = 1 / sqrt(mean of squares + epsilon).
template <class T>
void rmsnorm_forward(Isa isa, RowsShape shape, const T* x, const T* w, T* y, T* rstd, T epsilon = T(1e-5));
template <class T>
void rmsnorm_backward(Isa isa, RowsShape shape, const T* x, const T* w, const T* rstd, const T* dy, T* dx, T* dw);

/// y = softmax of each row, in place allowed. mask [rows][columns], 1 = takes part, at least one a row; null: all do.
template <class T>
void softmax_forward(Isa isa, RowsShape shape, const T* x, const std::uint8_t* mask, T* y);
/// Rows of squares [blocks][time][time]: column j takes part in row i when j <= i; the others give 0. In place allowed.
template <class T>
void softmax_causal_forward(Isa isa, std::size_t blocks, std::size_t time, const T* x, T* y);
/// dx = y (dy - sum(y dy)), for every kind of softmax; in place of dy allowed.
template <class T>
void softmax_backward(Isa isa, RowsShape shape, const T* y, const T* dy, T* dx);

/// GPT-2's tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). In place allowed.
template <class T>
void gelu_forward(Isa isa, std::size_t count, const T* x, T* y);
/// dx in place of dy is allowed.
template <class T>
void gelu_backward(Isa isa, std::size_t count, const T* x, const T* dy, T* dx);
/// The same dx, and the y of forward again, the same bits: cheaper together than keeping y. dx in place of dy is
/// allowed.
template <class T>
void gelu_backward_again(Isa isa, std::size_t count, const T* x, const T* dy, T* dx, T* y);

struct CrossEntropyResult {
  double loss_sum = 0;      ///< over the counted rows, in row order
  std::size_t counted = 0;  ///< rows whose target is not negative
};
template <class T>
struct CrossEntropyOutput {
  T* row_loss = nullptr;  ///< [rows], 0 for rows that are not counted; null: not wanted
  T* dlogits = nullptr;   ///< gradient of loss_sum / divisor; in place of the logits allowed; null: not wanted
  double divisor = 0;     ///< 0: the counted rows; data-parallel ranks give the global count
};
/// Softmax and the negative logarithm of the target's probability in one pass. Targets below 0 are ignored.
template <class T>
CrossEntropyResult cross_entropy(Isa isa, RowsShape shape, const T* logits, const std::int32_t* targets,
                                 const CrossEntropyOutput<T>& out);

namespace detail {

/// One version; functions without `rows` are for one row (GELU: one array). The reference exists for float and double.
template <class T>
struct RowsVersion {
  void (*layernorm)(std::size_t rows, std::size_t n, const T* x, const T* w, const T* b, T* y, T* mean, T* rstd,
                    T epsilon);
  void (*layernorm_again)(std::size_t n, const T* x, const T* w, const T* b, T mean, T rstd, T* y);
  /// residual may be null.
  void (*layernorm_back)(std::size_t rows, std::size_t n, const T* x, const T* w, const T* mean, const T* rstd,
                         const T* dy, const T* residual, T* dx, T* dw, T* db);
  void (*rmsnorm)(std::size_t n, const T* x, const T* w, T* y, T* rstd, T epsilon);
  void (*rmsnorm_back)(std::size_t n, const T* x, const T* w, T rstd, const T* dy, T* dx, T* dw);
  /// y = factor softmax(scale x); lse [rows], where not null: the logarithm of the sum of exp(scale x).
  void (*softmax)(std::size_t rows, std::size_t n, const T* x, T* y, T scale, T factor, T* lse);
  /// The logarithm of the sum of exp(x).
  T (*log_sum)(std::size_t n, const T* x);
  /// y = exp(scale x - shift).
  void (*exponentials)(std::size_t n, const T* x, T* y, T scale, T shift);
  /// dx = scale y (dy - sum(y dy)).
  void (*softmax_back)(std::size_t n, const T* y, const T* dy, T* dx, T scale);
  void (*gelu)(std::size_t n, const T* x, T* y);
  void (*gelu_back)(std::size_t n, const T* x, const T* dy, T* dx);
  void (*gelu_back_again)(std::size_t n, const T* x, const T* dy, T* dx, T* y);
};
template <class T>
const RowsVersion<T>& rows_reference();
template <> const RowsVersion<float>& rows_reference<float>();  // named before their use, as the standard wants it
template <> const RowsVersion<double>& rows_reference<double>();
const RowsVersion<float>* rows_avx2();  // null where it was not built
const RowsVersion<float>* rows_avx512();

/// The version that runs for an instruction set.
template <class T>
const RowsVersion<T>& rows_version(Isa isa);

}  // namespace detail
}  // namespace troupe::kernels
