// The reference recursions and the choice of a version.
#include "kernels/cpu/scans/scans.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace troupe::kernels {
namespace {

const detail::ScansVersion* scans_version(Isa isa) {
  if (isa == Isa::kAvx512 && isa_supported(isa) && detail::scans_avx512() != nullptr) return detail::scans_avx512();
  if (isa != Isa::kReference && isa_supported(Isa::kAvx2)) return detail::scans_avx2();
  return nullptr;
}

template <class T>
void gae_reference(const ScanShape& s, const GaeArrays<T>& a, const GaeFactors& f) {
  const T gamma = static_cast<T>(f.gamma);
  const T gamma_lambda = static_cast<T>(f.gamma * f.lambda);
  for (std::size_t t = s.steps; t-- > 0;) {
    for (std::size_t n = 0; n < s.envs; ++n) {
      const std::size_t i = t * s.envs + n;
      const bool terminated = a.terminated[i] != 0;
      const bool ended = terminated || a.truncated[i] != 0;
      const bool last = t + 1 == s.steps;
      const T following = ended ? a.final_value[i] : last ? a.last_value[n] : a.value[i + s.envs];
      const T delta = a.reward[i] + (terminated ? T{0} : gamma * following) - a.value[i];
      a.advantage[i] = delta + (ended || last ? T{0} : gamma_lambda * a.advantage[i + s.envs]);
      a.returns[i] = a.advantage[i] + a.value[i];
    }
  }
}

template <class T>
void vtrace_reference(const ScanShape& s, const VtraceArrays<T>& a, const VtraceFactors& f) {
  const T rho_bar = static_cast<T>(f.rho_bar), c_bar = static_cast<T>(f.c_bar);
  const T pg_rho_bar = static_cast<T>(f.pg_rho_bar), lambda = static_cast<T>(f.lambda);
  for (std::size_t t = s.steps; t-- > 0;) {
    for (std::size_t n = 0; n < s.envs; ++n) {
      const std::size_t i = t * s.envs + n;
      const bool last = t + 1 == s.steps;
      const T next_value = last ? a.bootstrap_value[n] : a.value[i + s.envs];
      const T next_vs = last ? a.bootstrap_value[n] : a.vs[i + s.envs];
      const T rho = std::exp(a.target_log_prob[i] - a.behaviour_log_prob[i]);
      const T delta = std::min(rho_bar, rho) * (a.reward[i] + a.discount[i] * next_value - a.value[i]);
      const T c = lambda * std::min(c_bar, rho);
      a.vs[i] = a.value[i] + delta + a.discount[i] * c * (next_vs - next_value);
      a.pg_advantage[i] = std::min(pg_rho_bar, rho) * (a.reward[i] + a.discount[i] * next_vs - a.value[i]);
    }
  }
}

}  // namespace

template <class T>
void gae_scan(Isa isa, const ScanShape& shape, const GaeArrays<T>& arrays, const GaeFactors& factors) {
  if constexpr (std::is_same_v<T, float>) {
    if (const detail::ScansVersion* version = scans_version(isa)) return version->gae(shape, arrays, factors);
  }
  gae_reference(shape, arrays, factors);
}

template <class T>
void vtrace_scan(Isa isa, const ScanShape& shape, const VtraceArrays<T>& arrays, const VtraceFactors& factors) {
  if constexpr (std::is_same_v<T, float>) {
    if (const detail::ScansVersion* version = scans_version(isa)) return version->vtrace(shape, arrays, factors);
  }
  vtrace_reference(shape, arrays, factors);
}

template void gae_scan<float>(Isa, const ScanShape&, const GaeArrays<float>&, const GaeFactors&);
template void gae_scan<double>(Isa, const ScanShape&, const GaeArrays<double>&, const GaeFactors&);
template void vtrace_scan<float>(Isa, const ScanShape&, const VtraceArrays<float>&, const VtraceFactors&);
template void vtrace_scan<double>(Isa, const ScanShape&, const VtraceArrays<double>&, const VtraceFactors&);

}  // namespace troupe::kernels
