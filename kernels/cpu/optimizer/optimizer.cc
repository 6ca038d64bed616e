// References and the choice of a version.
#include "kernels/cpu/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "kernels/cpu/isa/flush_denormals.h"

namespace troupe::kernels {
namespace {

const detail::VectorVersion* vector_version(Isa isa) {
  if (isa == Isa::kAvx512 && isa_supported(isa) && detail::vector_avx512() != nullptr) return detail::vector_avx512();
  if (isa != Isa::kReference && isa_supported(Isa::kAvx2)) return detail::vector_avx2();
  return nullptr;
}

template <class T>
void adam_reference(const AdamArrays<T>& a, const detail::AdamConstants<T>& c) {
  for (std::size_t i = 0; i < a.params.size(); ++i) {
    const T grad = a.grads[i] * c.grad_scale;
    a.first_moment[i] = c.beta1 * a.first_moment[i] + c.one_minus_beta1 * grad;
    a.second_moment[i] = c.beta2 * a.second_moment[i] + c.one_minus_beta2 * grad * grad;
    const T denominator = std::sqrt(a.second_moment[i]) * c.inverse_sqrt_correction2 + c.epsilon;
    a.params[i] = a.params[i] * c.keep - c.step_size * a.first_moment[i] / denominator;
  }
}

template <class T>
double square_sum(std::span<const T> block) {
  // Four chains, because one would wait for each addition; element i belongs to chain i % 4.
  double a = 0, b = 0, c = 0, d = 0;
  const auto square = [&](std::size_t i) { return static_cast<double>(block[i]) * static_cast<double>(block[i]); };
  std::size_t i = 0;
  for (; i + 4 <= block.size(); i += 4) {
    a += square(i);
    b += square(i + 1);
    c += square(i + 2);
    d += square(i + 3);
  }
  if (i < block.size()) a += square(i);
  if (i + 1 < block.size()) b += square(i + 1);
  if (i + 2 < block.size()) c += square(i + 2);
  return (a + b) + (c + d);
}

// Copies what crosses from one tensor to the next, so that blocks are those of one flat array.
template <class T>
double norm_of_parts(std::span<const std::span<const T>> tensors) {
  double total = 0;
  T crossing[kNormBlock];
  std::size_t held = 0;
  for (std::span<const T> rest : tensors) {
    while (!rest.empty()) {
      const std::size_t taken = std::min(kNormBlock - held, rest.size());
      if (taken == kNormBlock) {
        total += square_sum(rest.first(kNormBlock));
      } else {
        std::copy_n(rest.data(), taken, crossing + held);
        held += taken;
        if (held == kNormBlock) {
          total += square_sum(std::span<const T>(crossing, kNormBlock));
          held = 0;
        }
      }
      rest = rest.subspan(taken);
    }
  }
  if (held != 0) total += square_sum(std::span<const T>(crossing, held));
  return std::sqrt(total);
}

}  // namespace

template <class T>
void adam_step(Isa isa, const AdamArrays<T>& arrays, std::int64_t step, double grad_scale, const AdamOptions& options) {
  const double correction1 = 1.0 - std::pow(options.beta1, static_cast<double>(step));
  const double correction2 = 1.0 - std::pow(options.beta2, static_cast<double>(step));
  const detail::AdamConstants<T> constants{.grad_scale = static_cast<T>(grad_scale),
                                           .beta1 = static_cast<T>(options.beta1),
                                           .one_minus_beta1 = static_cast<T>(1.0 - options.beta1),
                                           .beta2 = static_cast<T>(options.beta2),
                                           .one_minus_beta2 = static_cast<T>(1.0 - options.beta2),
                                           .step_size = static_cast<T>(options.learning_rate / correction1),
                                           .inverse_sqrt_correction2 = static_cast<T>(1.0 / std::sqrt(correction2)),
                                           .epsilon = static_cast<T>(options.epsilon),
                                           .keep = static_cast<T>(1.0 - options.learning_rate * options.weight_decay)};
  const FlushDenormals flush;  // KO-7
  if constexpr (std::is_same_v<T, float>) {
    if (const detail::VectorVersion* version = vector_version(isa)) {
      version->adam(arrays.params.data(), arrays.grads.data(), arrays.first_moment.data(), arrays.second_moment.data(),
                    arrays.params.size(), constants);
      return;
    }
  }
  adam_reference(arrays, constants);
}

template <class T>
void adamw_step(Isa isa, std::span<const AdamTensor<T>> tensors, std::int64_t step, double grad_scale,
                const AdamOptions& options) {
  AdamOptions plain = options;
  plain.weight_decay = 0;
  for (const AdamTensor<T>& tensor : tensors)
    adam_step<T>(isa, tensor.arrays, step, grad_scale, tensor.decayed ? options : plain);
}

template <class T>
void sgd_step(Isa isa, std::span<T> params, std::span<const T> grads, std::span<T> buffer, std::int64_t step,
              double grad_scale, const SgdOptions& options) {
  const detail::SgdConstants<T> c{.grad_scale = static_cast<T>(grad_scale),
                                  .learning_rate = static_cast<T>(options.learning_rate),
                                  .momentum = static_cast<T>(options.momentum),
                                  .weight_decay = static_cast<T>(options.weight_decay)};
  const FlushDenormals flush;  // KO-7
  if (step <= 1) std::fill(buffer.begin(), buffer.end(), T{0});
  if constexpr (std::is_same_v<T, float>) {
    if (const detail::VectorVersion* version = vector_version(isa)) {
      version->sgd(params.data(), grads.data(), buffer.data(), params.size(), c);
      return;
    }
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    const T grad = grads[i] * c.grad_scale + c.weight_decay * params[i];
    buffer[i] = c.momentum * buffer[i] + grad;
    params[i] -= c.learning_rate * buffer[i];
  }
}

template <class T>
void rmsprop_step(std::span<T> params, std::span<const T> grads, std::span<T> squares, double grad_scale,
                  const RmspropOptions& options) {
  const T scale = static_cast<T>(grad_scale), rate = static_cast<T>(options.learning_rate);
  const T decay = static_cast<T>(options.decay), rest = static_cast<T>(1 - options.decay);
  const T epsilon = static_cast<T>(options.epsilon);
  for (std::size_t i = 0; i < params.size(); ++i) {
    const T grad = grads[i] * scale;
    squares[i] = decay * squares[i] + rest * grad * grad;
    params[i] -= rate * grad / std::sqrt(squares[i] + epsilon);
  }
}

template <class T>
void move_towards(Isa isa, std::span<T> targets, std::span<const T> values, double share) {
  if (share == 1) {
    std::copy(values.begin(), values.end(), targets.begin());
    return;
  }
  const auto part = static_cast<T>(share);
  if constexpr (std::is_same_v<T, float>) {
    if (const detail::VectorVersion* version = vector_version(isa)) {
      version->move_towards(targets.data(), values.data(), targets.size(), part);
      return;
    }
  }
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] += part * (values[i] - targets[i]);
}

template <class T>
void square_sums(std::span<const T> values, std::span<double> sums) {
  std::size_t done = 0;
  if constexpr (std::is_same_v<T, float>) {
    if (const detail::VectorVersion* version = vector_version(best_isa())) {
      done = values.size() / kNormBlock;
      version->square_sums(values.data(), done, sums.data());
    }
  }
  for (; done * kNormBlock < values.size(); ++done)
    sums[done] = square_sum(values.subspan(done * kNormBlock, std::min(kNormBlock, values.size() - done * kNormBlock)));
}

template <class T>
double global_norm(std::span<const T> values) {
  double total = 0, sums[64];
  for (std::size_t start = 0; start < values.size(); start += std::size(sums) * kNormBlock) {
    const std::span<const T> part =
        values.subspan(start, std::min(std::size(sums) * kNormBlock, values.size() - start));
    square_sums<T>(part, sums);
    for (std::size_t b = 0; b * kNormBlock < part.size(); ++b) total += sums[b];
  }
  return std::sqrt(total);
}

template <class T>
double global_norm(std::span<const std::span<const T>> tensors) {
  return norm_of_parts(tensors);
}

template <class T>
void scale_values(std::span<T> values, double factor) {
  const auto f = static_cast<T>(factor);
  for (T& v : values) v *= f;
}

double clip_scale(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

void tanh_array(Isa isa, std::span<const float> in, std::span<float> out) {
  if (const detail::VectorVersion* version = vector_version(isa)) {
    version->tanh_all(in.data(), out.data(), in.size());
    return;
  }
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = std::tanh(in[i]);
}

template void adam_step<float>(Isa, const AdamArrays<float>&, std::int64_t, double, const AdamOptions&);
template void adam_step<double>(Isa, const AdamArrays<double>&, std::int64_t, double, const AdamOptions&);
template void adamw_step<float>(Isa, std::span<const AdamTensor<float>>, std::int64_t, double, const AdamOptions&);
template void adamw_step<double>(Isa, std::span<const AdamTensor<double>>, std::int64_t, double, const AdamOptions&);
template void sgd_step<float>(Isa, std::span<float>, std::span<const float>, std::span<float>, std::int64_t, double,
                              const SgdOptions&);
template void sgd_step<double>(Isa, std::span<double>, std::span<const double>, std::span<double>, std::int64_t, double,
                               const SgdOptions&);
template void rmsprop_step<float>(std::span<float>, std::span<const float>, std::span<float>, double,
                                  const RmspropOptions&);
template void rmsprop_step<double>(std::span<double>, std::span<const double>, std::span<double>, double,
                                   const RmspropOptions&);
template void move_towards<float>(Isa, std::span<float>, std::span<const float>, double);
template void move_towards<double>(Isa, std::span<double>, std::span<const double>, double);
template void square_sums<float>(std::span<const float>, std::span<double>);
template void square_sums<double>(std::span<const double>, std::span<double>);
template double global_norm<float>(std::span<const float>);
template double global_norm<double>(std::span<const double>);
template double global_norm<float>(std::span<const std::span<const float>>);
template double global_norm<double>(std::span<const std::span<const double>>);
template void scale_values<float>(std::span<float>, double);
template void scale_values<double>(std::span<double>, double);

}  // namespace troupe::kernels
