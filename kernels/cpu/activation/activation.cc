// The reference, and the choice of a version.
#include "kernels/cpu/activation/activation.h"

#include <cmath>
#include <type_traits>

namespace troupe::kernels {
namespace {

template <class T>
void tanh_forward(std::size_t count, const T* x, T* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = std::tanh(x[i]);
}

template <class T>
void tanh_backward(std::size_t count, const T* y, const T* dy, T* dx) {
  for (std::size_t i = 0; i < count; ++i) dx[i] = dy[i] * (T{1} - y[i] * y[i]);
}

template <class T>
void relu_forward(std::size_t count, const T* x, T* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i] < T{0} ? T{0} : x[i];
}

template <class T>
void relu_backward(std::size_t count, const T* y, const T* dy, T* dx) {
  for (std::size_t i = 0; i < count; ++i) dx[i] = y[i] <= T{0} ? T{0} : dy[i];
}

template <class T, auto kForward>
void units_forward(const UnitShape& shape, const T* bias, T* y) {
  for (std::size_t u = 0; u < shape.units; ++u, y += shape.samples) {
    for (std::size_t s = 0; s < shape.samples; ++s) y[s] += bias[u];
    kForward(shape.samples, y, y);
  }
}

template <class T, auto kBackward>
void units_backward(const UnitShape& shape, const T* y, T* dy, T* dbias) {
  for (std::size_t u = 0; u < shape.units; ++u, y += shape.samples, dy += shape.samples) {
    kBackward(shape.samples, y, dy, dy);
    if (dbias == nullptr) continue;
    for (std::size_t s = 0; s < shape.samples; ++s) dbias[u] += dy[s];
  }
}

template <class T>
constexpr detail::ActivationVersion<T> kReference{&tanh_forward<T>,
                                                  &tanh_backward<T>,
                                                  &relu_forward<T>,
                                                  &relu_backward<T>,
                                                  &units_forward<T, &tanh_forward<T>>,
                                                  &units_backward<T, &tanh_backward<T>>,
                                                  &units_forward<T, &relu_forward<T>>,
                                                  &units_backward<T, &relu_backward<T>>};

template <class T>
const detail::ActivationVersion<T>& activation_version(Isa isa) {
  if constexpr (std::is_same_v<T, float>) {
    if (isa == Isa::kAvx512 && isa_supported(isa) && detail::activation_avx512() != nullptr)
      return *detail::activation_avx512();
    if (isa != Isa::kReference && isa_supported(Isa::kAvx2) && detail::activation_avx2() != nullptr)
      return *detail::activation_avx2();
  }
  return kReference<T>;
}

}  // namespace

template <class T>
void activation_forward(Isa isa, Activation activation, std::size_t count, const T* x, T* y) {
  const auto& version = activation_version<T>(isa);
  (activation == Activation::kTanh ? version.tanh : version.relu)(count, x, y);
}

template <class T>
void activation_backward(Isa isa, Activation activation, std::size_t count, const T* y, const T* dy, T* dx) {
  const auto& version = activation_version<T>(isa);
  (activation == Activation::kTanh ? version.tanh_back : version.relu_back)(count, y, dy, dx);
}

template <class T>
void unit_forward(Isa isa, Activation activation, const UnitShape& shape, const T* bias, T* y) {
  const auto& version = activation_version<T>(isa);
  (activation == Activation::kTanh ? version.tanh_units : version.relu_units)(shape, bias, y);
}

template <class T>
void unit_backward(Isa isa, Activation activation, const UnitShape& shape, const T* y, T* dy, T* dbias) {
  const auto& version = activation_version<T>(isa);
  (activation == Activation::kTanh ? version.tanh_units_back : version.relu_units_back)(shape, y, dy, dbias);
}

template void unit_forward<float>(Isa, Activation, const UnitShape&, const float*, float*);
template void unit_forward<double>(Isa, Activation, const UnitShape&, const double*, double*);
template void unit_backward<float>(Isa, Activation, const UnitShape&, const float*, float*, float*);
template void unit_backward<double>(Isa, Activation, const UnitShape&, const double*, double*, double*);
template void activation_forward<float>(Isa, Activation, std::size_t, const float*, float*);
template void activation_forward<double>(Isa, Activation, std::size_t, const double*, double*);
template void activation_backward<float>(Isa, Activation, std::size_t, const float*, const float*, float*);
template void activation_backward<double>(Isa, Activation, std::size_t, const double*, const double*, double*);

}  // namespace troupe::kernels
