// Activations of hidden layers: tanh and ReLU, forward and backward; over arrays, or over a matrix whose rows are units
// and whose columns are samples, together with the units' biases.
//
// Pure; any thread. Arrays have `count` elements. T is float or double; double always runs the reference. An
// unsupported instruction set runs the best one below it.
//
// ACT-1  Backward needs y only, what forward gave: dx = dy (1 - y^2) for tanh; for ReLU 0 where y <= 0, else dy.
// ACT-2  y may be x, dx may be dy; no other overlap. An element depends on that element only.
// ACT-3  The vector versions' tanh keeps KT-1 and KT-2 (tanh_simd.inc). ReLU of NaN is NaN.
// ACT-4  unit_forward and unit_backward give an element the bits that adding the bias and the plain functions give it.
//        The order in which a unit's slopes are summed depends on the samples and the instruction set only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/isa.h"

namespace troupe::kernels {

enum class Activation : std::uint8_t { kTanh, kRelu };

template <class T>
void activation_forward(Isa isa, Activation activation, std::size_t count, const T* x, T* y);
template <class T>
void activation_backward(Isa isa, Activation activation, std::size_t count, const T* y, const T* dy, T* dx);

/// [units][samples], dense.
struct UnitShape {
  std::size_t units = 0, samples = 0;
};
/// y[u][s] = activation(y[u][s] + bias[u]).
template <class T>
void unit_forward(Isa isa, Activation activation, const UnitShape& shape, const T* bias, T* y);
/// Turns the slopes dy of what unit_forward gave into those of what it was given, in place, and adds the sum over a
/// unit's samples to dbias[u]; null: not wanted.
template <class T>
void unit_backward(Isa isa, Activation activation, const UnitShape& shape, const T* y, T* dy, T* dbias);

namespace detail {

template <class T>
struct ActivationVersion {
  void (*tanh)(std::size_t count, const T* x, T* y);
  void (*tanh_back)(std::size_t count, const T* y, const T* dy, T* dx);
  void (*relu)(std::size_t count, const T* x, T* y);
  void (*relu_back)(std::size_t count, const T* y, const T* dy, T* dx);
  void (*tanh_units)(const UnitShape& shape, const T* bias, T* y);
  void (*tanh_units_back)(const UnitShape& shape, const T* y, T* dy, T* dbias);
  void (*relu_units)(const UnitShape& shape, const T* bias, T* y);
  void (*relu_units_back)(const UnitShape& shape, const T* y, T* dy, T* dbias);
};
const ActivationVersion<float>* activation_avx2();  // null where it was not built
const ActivationVersion<float>* activation_avx512();

}  // namespace detail
}  // namespace troupe::kernels
