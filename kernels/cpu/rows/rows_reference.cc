// The definition of every row kernel, in float or double.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/rows/rows.h"

namespace troupe::kernels::detail {
namespace {

template <class T>
void layernorm_row(std::size_t n, const T* x, const T* w, const T* b, T* y, T* mean, T* rstd, T epsilon) {
  T sum{0}, squares{0};
  for (std::size_t i = 0; i < n; ++i) sum += x[i];
  const T m = sum / static_cast<T>(n);
  for (std::size_t i = 0; i < n; ++i) squares += (x[i] - m) * (x[i] - m);
  const T r = T{1} / std::sqrt(squares / static_cast<T>(n) + epsilon);
  for (std::size_t i = 0; i < n; ++i) y[i] = (x[i] - m) * r * w[i] + b[i];
  *mean = m;
  *rstd = r;
}

template <class T>
void layernorm(std::size_t rows, std::size_t n, const T* x, const T* w, const T* b, T* y, T* mean, T* rstd, T epsilon) {
  for (std::size_t r = 0; r < rows; ++r) layernorm_row(n, x + r * n, w, b, y + r * n, mean + r, rstd + r, epsilon);
}

template <class T>
void layernorm_again(std::size_t n, const T* x, const T* w, const T* b, T mean, T rstd, T* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
}

template <class T>
void layernorm_back_row(std::size_t n, const T* x, const T* w, T mean, T rstd, const T* dy, const T* residual, T* dx,
                        T* dw, T* db) {
  T sum{0}, dot{0};
  for (std::size_t i = 0; i < n; ++i) {
    const T g = dy[i] * w[i];
    sum += g;
    dot += g * (x[i] - mean) * rstd;
  }
  sum /= static_cast<T>(n);
  dot /= static_cast<T>(n);
  for (std::size_t i = 0; i < n; ++i) {
    const T normal = (x[i] - mean) * rstd;
    const T g = dy[i];
    dw[i] += g * normal;
    db[i] += g;
    dx[i] = rstd * (g * w[i] - sum - normal * dot) + (residual != nullptr ? residual[i] : T{0});
  }
}

template <class T>
void layernorm_back(std::size_t rows, std::size_t n, const T* x, const T* w, const T* mean, const T* rstd, const T* dy,
                    const T* residual, T* dx, T* dw, T* db) {
  for (std::size_t r = 0; r < rows; ++r)
    layernorm_back_row(n, x + r * n, w, mean[r], rstd[r], dy + r * n, residual != nullptr ? residual + r * n : nullptr,
                       dx + r * n, dw, db);
}

template <class T>
void rmsnorm(std::size_t n, const T* x, const T* w, T* y, T* rstd, T epsilon) {
  T squares{0};
  for (std::size_t i = 0; i < n; ++i) squares += x[i] * x[i];
  const T r = T{1} / std::sqrt(squares / static_cast<T>(n) + epsilon);
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * r * w[i];
  *rstd = r;
}

template <class T>
void rmsnorm_back(std::size_t n, const T* x, const T* w, T rstd, const T* dy, T* dx, T* dw) {
  T dot{0};
  for (std::size_t i = 0; i < n; ++i) dot += dy[i] * w[i] * x[i] * rstd;
  dot /= static_cast<T>(n);
  for (std::size_t i = 0; i < n; ++i) {
    const T normal = x[i] * rstd;
    const T g = dy[i];
    dw[i] += g * normal;
    dx[i] = rstd * (g * w[i] - normal * dot);
  }
}

template <class T>
void exponentials(std::size_t n, const T* x, T* y, T scale, T shift) {
  for (std::size_t i = 0; i < n; ++i) y[i] = std::exp(scale * x[i] - shift);
}

template <class T>
T softmax_row(std::size_t n, const T* x, T* y, T scale, T factor) {
  T largest = scale * x[0];
  for (std::size_t i = 1; i < n; ++i) largest = std::max(largest, scale * x[i]);
  T sum{0};
  for (std::size_t i = 0; i < n; ++i) {
    y[i] = std::exp(scale * x[i] - largest);
    sum += y[i];
  }
  for (std::size_t i = 0; i < n; ++i) y[i] = factor * y[i] / sum;
  return largest + std::log(sum);
}

template <class T>
void softmax(std::size_t rows, std::size_t n, const T* x, T* y, T scale, T factor, T* lse) {
  for (std::size_t r = 0; r < rows; ++r) {
    const T sum = softmax_row(n, x + r * n, y + r * n, scale, factor);
    if (lse != nullptr) lse[r] = sum;
  }
}

template <class T>
T log_sum(std::size_t n, const T* x) {
  const T largest = *std::max_element(x, x + n);
  T sum{0};
  for (std::size_t i = 0; i < n; ++i) sum += std::exp(x[i] - largest);
  return largest + std::log(sum);
}

template <class T>
void softmax_back(std::size_t n, const T* y, const T* dy, T* dx, T scale) {
  T dot{0};
  for (std::size_t i = 0; i < n; ++i) dot += y[i] * dy[i];
  for (std::size_t i = 0; i < n; ++i) dx[i] = scale * y[i] * (dy[i] - dot);
}

// 0.5 (1 + tanh u) is the logistic function of 2u: no digits are lost where tanh is near -1.
template <class T>
T gelu_gate(T x) {
  const T u = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
  return T{1} / (T{1} + std::exp(T{-2} * u));
}

template <class T>
void gelu(std::size_t n, const T* x, T* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * gelu_gate(x[i]);
}

template <class T>
void gelu_back(std::size_t n, const T* x, const T* dy, T* dx) {
  for (std::size_t i = 0; i < n; ++i) {
    const T gate = gelu_gate(x[i]);
    const T slope = T{2} * T(0.79788456080286535588) * (T{1} + T(3 * 0.044715) * x[i] * x[i]);
    dx[i] = dy[i] * (gate + x[i] * gate * (T{1} - gate) * slope);
  }
}

template <class T>
void gelu_back_again(std::size_t n, const T* x, const T* dy, T* dx, T* y) {
  gelu_back(n, x, dy, dx);
  gelu(n, x, y);
}

template <class T>
constexpr RowsVersion<T> kVersion{&layernorm<T>, &layernorm_again<T>, &layernorm_back<T>, &rmsnorm<T>,
                                  &rmsnorm_back<T>, &softmax<T>, &log_sum<T>, &exponentials<T>, &softmax_back<T>,
                                  &gelu<T>, &gelu_back<T>, &gelu_back_again<T>};

}  // namespace

template <>
const RowsVersion<float>& rows_reference<float>() {
  return kVersion<float>;
}
template <>
const RowsVersion<double>& rows_reference<double>() {
  return kVersion<double>;
}

}  // namespace troupe::kernels::detail
