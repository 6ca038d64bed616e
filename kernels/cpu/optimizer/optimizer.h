// What happens to flat parameter arrays: AdamW, SGD with momentum, RMSprop, the global gradient norm and its clip, and
// tanh over an array.
//
// Pure functions on spans of equal length; any thread, as long as the spans written are not shared.
//
// KO-1  Adam: m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p -= lr / (1-b1^t) * m / (sqrt(v) / sqrt(1-b2^t) + eps), t
//       from 1. AdamW (weight_decay > 0): p *= 1 - lr * weight_decay before that.
// KO-2  A global norm is summed in double over fixed blocks of 4,096 elements, in block order: the same bits on any
//       machine. So a rank that holds whole blocks can send their sums (square_sums), and whoever adds all of them in
//       order gets the norm of the whole. Several tensors count as one array after the other.
// KO-3  clip_scale = min(1, max_norm / (norm + 1e-6)).
// KO-4  SGD: g += weight_decay * p; buf = g at step 1, then momentum * buf + g; p -= lr * buf.
// KO-5  RMSprop: v = decay v + (1-decay) g^2; p -= lr g / sqrt(v + eps): TensorFlow's, with eps under the root.
// KO-6  move_towards: t += share * (v - t); with a share of 1 it is a copy, to the bit.
// KO-7  Adam, AdamW and SGD take denormal numbers for zero on x86-64, whatever the instruction set: moments of
//       parameters that get no gradient end at zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/isa/isa.h"

namespace troupe::kernels {

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

template <class T>
struct AdamArrays {
  std::span<T> params;
  std::span<const T> grads;
  std::span<T> first_moment;
  std::span<T> second_moment;
};

/// One step (KO-1); step counts from 1; every gradient is first multiplied by grad_scale.
template <class T>
void adam_step(Isa isa, const AdamArrays<T>& arrays, std::int64_t step, double grad_scale, const AdamOptions& options);

/// The same for several tensors in one pass; decayed says which of them weight_decay applies to (as a rule those with
/// two or more axes). Every moment has the size of its parameters.
template <class T>
struct AdamTensor {
  AdamArrays<T> arrays;
  bool decayed = true;
};
template <class T>
void adamw_step(Isa isa, std::span<const AdamTensor<T>> tensors, std::int64_t step, double grad_scale,
                const AdamOptions& options);

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0;
  double weight_decay = 0;
};
/// One step (KO-4) with the running buffer; step counts from 1; every gradient is first multiplied by grad_scale.
template <class T>
void sgd_step(Isa isa, std::span<T> params, std::span<const T> grads, std::span<T> buffer, std::int64_t step,
              double grad_scale, const SgdOptions& options);

struct RmspropOptions {
  double learning_rate = 7e-4;
  double decay = 0.99;
  double epsilon = 1e-5;
};
/// One step (KO-5) with the running squares, whose first values are the caller's; every gradient is first multiplied by
/// grad_scale. Plain C++: the same bits on every instruction set.
template <class T>
void rmsprop_step(std::span<T> params, std::span<const T> grads, std::span<T> squares, double grad_scale,
                  const RmspropOptions& options);

/// Moves every target by that share of its way to the value (KO-6): an average that forgets.
template <class T>
void move_towards(Isa isa, std::span<T> targets, std::span<const T> values, double share);

inline constexpr std::size_t kNormBlock = 4096;

/// Sums of squares of each block of kNormBlock elements, the last one shorter; sums has a place for each.
template <class T>
void square_sums(std::span<const T> values, std::span<double> sums);

/// The Euclidean norm of all elements (KO-2).
template <class T>
[[nodiscard]] double global_norm(std::span<const T> values);
/// The norm of several tensors, one after the other (KO-2).
template <class T>
[[nodiscard]] double global_norm(std::span<const std::span<const T>> tensors);

/// values[i] *= factor.
template <class T>
void scale_values(std::span<T> values, double factor);

/// The factor that brings a gradient of that norm down to max_norm (KO-3).
[[nodiscard]] double clip_scale(double norm, double max_norm);

/// out[i] = tanh(in[i]); the vector versions keep to tanh_simd.inc's error bound. The spans may be the same.
void tanh_array(Isa isa, std::span<const float> in, std::span<float> out);

namespace detail {

template <class T>
struct AdamConstants {
  T grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, inverse_sqrt_correction2, epsilon;
  T keep;  // 1 - lr * weight_decay
};

template <class T>
struct SgdConstants {
  T grad_scale, learning_rate, momentum, weight_decay;
};

struct VectorVersion {
  void (*adam)(float* p, const float* g, float* m, float* v, std::size_t count, const AdamConstants<float>&);
  void (*sgd)(float* p, const float* g, float* buffer, std::size_t count, const SgdConstants<float>&);
  void (*tanh_all)(const float* in, float* out, std::size_t count);
  void (*square_sums)(const float* values, std::size_t blocks, double* sums);  // of whole blocks of kNormBlock; KO-2
  void (*move_towards)(float* targets, const float* values, std::size_t count, float share);
};
const VectorVersion* vector_avx2();  // null where it was not built
const VectorVersion* vector_avx512();

}  // namespace detail
}  // namespace troupe::kernels
