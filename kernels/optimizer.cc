// References and the choice of a version.
#include "kernels/optimizer.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace troupe::kernels {
namespace {

constexpr std::size_t kNormBlock = 4096;

const detail::VectorVersion* version_for(Isa isa) {
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
    a.params[i] -= c.step_size * a.first_moment[i] / denominator;
  }
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
                                           .epsilon = static_cast<T>(options.epsilon)};
  if constexpr (std::is_same_v<T, float>) {
    if (const detail::VectorVersion* version = version_for(isa)) {
      version->adam(arrays.params.data(), arrays.grads.data(), arrays.first_moment.data(), arrays.second_moment.data(),
                    arrays.params.size(), constants);
      return;
    }
  }
  adam_reference(arrays, constants);
}

template <class T>
double global_norm(std::span<const T> values) {
  double total = 0;
  for (std::size_t start = 0; start < values.size(); start += kNormBlock) {
    const std::span<const T> block = values.subspan(start, std::min(kNormBlock, values.size() - start));
    double lanes[4] = {0, 0, 0, 0};  // four chains, because one would wait for each addition
    for (std::size_t i = 0; i < block.size(); ++i)
      lanes[i % 4] += static_cast<double>(block[i]) * static_cast<double>(block[i]);
    total += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  }
  return std::sqrt(total);
}

double clip_scale(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

void tanh_array(Isa isa, std::span<const float> in, std::span<float> out) {
  if (const detail::VectorVersion* version = version_for(isa)) {
    version->tanh_all(in.data(), out.data(), in.size());
    return;
  }
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = std::tanh(in[i]);
}

template void adam_step<float>(Isa, const AdamArrays<float>&, std::int64_t, double, const AdamOptions&);
template void adam_step<double>(Isa, const AdamArrays<double>&, std::int64_t, double, const AdamOptions&);
template double global_norm<float>(std::span<const float>);
template double global_norm<double>(std::span<const double>);

}  // namespace troupe::kernels
