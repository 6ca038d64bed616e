// Loops over rows, masks, and the choice of a version.
#include "kernels/cpu/rows/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace troupe::kernels {

template <class T>
const detail::RowsVersion<T>& detail::rows_version(Isa isa) {
  if constexpr (std::is_same_v<T, float>) {
    if (isa == Isa::kAvx512 && isa_supported(isa) && rows_avx512() != nullptr) return *rows_avx512();
    if (isa != Isa::kReference && isa_supported(Isa::kAvx2) && rows_avx2() != nullptr) return *rows_avx2();
  }
  return rows_reference<T>();
}

template <class T>
void layernorm_forward(Isa isa, RowsShape s, const T* x, const T* w, const T* b, T* y,
                       const NormStatistics<T>& statistics, T epsilon) {
  detail::rows_version<T>(isa).layernorm(s.rows, s.columns, x, w, b, y, statistics.mean, statistics.rstd, epsilon);
}

template <class T>
void layernorm_again(Isa isa, RowsShape s, const T* x, const T* w, const T* b, const NormStatistics<T>& statistics,
                     T* y) {
  const auto& version = detail::rows_version<T>(isa);
  for (std::size_t r = 0; r < s.rows; ++r) {
    const std::size_t at = r * s.columns;
    version.layernorm_again(s.columns, x + at, w, b, statistics.mean[r], statistics.rstd[r], y + at);
  }
}

template <class T>
void layernorm_backward(Isa isa, RowsShape s, const T* x, const T* w, const NormStatistics<T>& statistics, const T* dy,
                        T* dx, T* dw, T* db, const T* residual) {
  detail::rows_version<T>(isa).layernorm_back(s.rows, s.columns, x, w, statistics.mean, statistics.rstd, dy, residual,
                                              dx, dw, db);
}

template <class T>
void rmsnorm_forward(Isa isa, RowsShape s, const T* x, const T* w, T* y, T* rstd, T epsilon) {
  const auto& version = detail::rows_version<T>(isa);
  for (std::size_t r = 0; r < s.rows; ++r)
    version.rmsnorm(s.columns, x + r * s.columns, w, y + r * s.columns, rstd + r, epsilon);
}

template <class T>
void rmsnorm_backward(Isa isa, RowsShape s, const T* x, const T* w, const T* rstd, const T* dy, T* dx, T* dw) {
  const auto& version = detail::rows_version<T>(isa);
  for (std::size_t r = 0; r < s.rows; ++r) {
    const std::size_t at = r * s.columns;
    version.rmsnorm_back(s.columns, x + at, w, rstd[r], dy + at, dx + at, dw);
  }
}

template <class T>
void softmax_forward(Isa isa, RowsShape s, const T* x, const std::uint8_t* mask, T* y) {
  const auto& version = detail::rows_version<T>(isa);
  if (s.columns == 0) return;
  const std::size_t size = s.rows * s.columns;
  if (mask != nullptr) {
    for (std::size_t i = 0; i < size; ++i) y[i] = mask[i] != 0 ? x[i] : -std::numeric_limits<T>::infinity();
    x = y;
  }
  version.softmax(s.rows, s.columns, x, y, T{1}, T{1}, nullptr);
}

template <class T>
void softmax_causal_forward(Isa isa, std::size_t blocks, std::size_t time, const T* x, T* y) {
  const auto& version = detail::rows_version<T>(isa);
  for (std::size_t r = 0; r < blocks * time; ++r) {
    const std::size_t length = r % time + 1;
    version.softmax(1, length, x + r * time, y + r * time, T{1}, T{1}, nullptr);
    std::fill(y + r * time + length, y + (r + 1) * time, T{0});
  }
}

template <class T>
void softmax_backward(Isa isa, RowsShape s, const T* y, const T* dy, T* dx) {
  const auto& version = detail::rows_version<T>(isa);
  for (std::size_t r = 0; r < s.rows; ++r) {
    const std::size_t at = r * s.columns;
    version.softmax_back(s.columns, y + at, dy + at, dx + at, T{1});
  }
}

template <class T>
void gelu_forward(Isa isa, std::size_t count, const T* x, T* y) {
  detail::rows_version<T>(isa).gelu(count, x, y);
}

template <class T>
void gelu_backward(Isa isa, std::size_t count, const T* x, const T* dy, T* dx) {
  detail::rows_version<T>(isa).gelu_back(count, x, dy, dx);
}

template <class T>
void gelu_backward_again(Isa isa, std::size_t count, const T* x, const T* dy, T* dx, T* y) {
  detail::rows_version<T>(isa).gelu_back_again(count, x, dy, dx, y);
}

template <class T>
CrossEntropyResult cross_entropy(Isa isa, RowsShape s, const T* logits, const std::int32_t* targets,
                                 const CrossEntropyOutput<T>& out) {
  const auto& version = detail::rows_version<T>(isa);
  CrossEntropyResult result;
  for (std::size_t r = 0; r < s.rows; ++r) result.counted += targets[r] >= 0 ? 1 : 0;
  const double divisor = out.divisor != 0 ? out.divisor : static_cast<double>(std::max<std::size_t>(result.counted, 1));
  const T factor = static_cast<T>(1.0 / divisor);
  constexpr std::size_t kTogether = 16;
  T at_target[kTogether], lse[kTogether];
  for (std::size_t first = 0, some = 0; first < s.rows; first += some) {
    const T* row = logits + first * s.columns;
    T* gradient = out.dlogits != nullptr ? out.dlogits + first * s.columns : nullptr;
    some = 1;
    if (targets[first] < 0) {
      if (out.row_loss != nullptr) out.row_loss[first] = T{0};
      if (gradient != nullptr) std::fill(gradient, gradient + s.columns, T{0});
      continue;
    }
    while (some < kTogether && first + some < s.rows && targets[first + some] >= 0) ++some;
    for (std::size_t r = 0; r < some; ++r) at_target[r] = row[r * s.columns + std::size_t(targets[first + r])];
    if (gradient != nullptr) {  // perhaps in place of the logits
      version.softmax(some, s.columns, row, gradient, T{1}, factor, lse);
      for (std::size_t r = 0; r < some; ++r) gradient[r * s.columns + std::size_t(targets[first + r])] -= factor;
    } else {
      for (std::size_t r = 0; r < some; ++r) lse[r] = version.log_sum(s.columns, row + r * s.columns);
    }
    for (std::size_t r = 0; r < some; ++r) {
      const T loss = lse[r] - at_target[r];
      if (out.row_loss != nullptr) out.row_loss[first + r] = loss;
      result.loss_sum += static_cast<double>(loss);
    }
  }
  return result;
}

#define TROUPE_INSTANTIATE(T)                                                                                         \
  template const detail::RowsVersion<T>& detail::rows_version<T>(Isa);                                                \
  template void layernorm_forward<T>(Isa, RowsShape, const T*, const T*, const T*, T*, const NormStatistics<T>&, T);  \
  template void layernorm_again<T>(Isa, RowsShape, const T*, const T*, const T*, const NormStatistics<T>&, T*);       \
  template void layernorm_backward<T>(Isa, RowsShape, const T*, const T*, const NormStatistics<T>&, const T*, T*, T*, \
                                      T*, const T*);                                                                  \
  template void rmsnorm_forward<T>(Isa, RowsShape, const T*, const T*, T*, T*, T);                                    \
  template void rmsnorm_backward<T>(Isa, RowsShape, const T*, const T*, const T*, const T*, T*, T*);                  \
  template void softmax_forward<T>(Isa, RowsShape, const T*, const std::uint8_t*, T*);                                \
  template void softmax_causal_forward<T>(Isa, std::size_t, std::size_t, const T*, T*);                               \
  template void softmax_backward<T>(Isa, RowsShape, const T*, const T*, T*);                                          \
  template void gelu_forward<T>(Isa, std::size_t, const T*, T*);                                                      \
  template void gelu_backward<T>(Isa, std::size_t, const T*, const T*, T*);                                           \
  template void gelu_backward_again<T>(Isa, std::size_t, const T*, const T*, T*, T*);                                 \
  template CrossEntropyResult cross_entropy<T>(Isa, RowsShape, const T*, const std::int32_t*,                         \
                                               const CrossEntropyOutput<T>&)
TROUPE_INSTANTIATE(float);
TROUPE_INSTANTIATE(double);

}  // namespace troupe::kernels
