#include "apps/rl/vtrace.h"

#include <algorithm>
#include <cmath>

namespace rl {

template <class T>
void vtrace(const VtraceInput<T>& in, const VtraceOptions& options, std::span<T> vs, std::span<T> pg_advantage) {
  const T rho_bar = static_cast<T>(options.rho_bar);
  const T c_bar = static_cast<T>(options.c_bar);
  const T pg_rho_bar = static_cast<T>(options.pg_rho_bar);
  const T lambda = static_cast<T>(options.lambda);
  for (std::size_t t = in.steps; t-- > 0;) {
    for (std::size_t n = 0; n < in.envs; ++n) {
      const std::size_t i = t * in.envs + n;
      const bool last = t + 1 == in.steps;
      const T next_value = last ? in.bootstrap_value[n] : in.value[i + in.envs];
      const T next_vs = last ? in.bootstrap_value[n] : vs[i + in.envs];
      const T rho = std::exp(in.target_log_prob[i] - in.behaviour_log_prob[i]);
      const T delta = std::min(rho_bar, rho) * (in.reward[i] + in.discount[i] * next_value - in.value[i]);
      const T c = lambda * std::min(c_bar, rho);
      vs[i] = in.value[i] + delta + in.discount[i] * c * (next_vs - next_value);
      pg_advantage[i] = std::min(pg_rho_bar, rho) * (in.reward[i] + in.discount[i] * next_vs - in.value[i]);
    }
  }
}

template void vtrace<float>(const VtraceInput<float>&, const VtraceOptions&, std::span<float>, std::span<float>);
template void vtrace<double>(const VtraceInput<double>&, const VtraceOptions&, std::span<double>, std::span<double>);

}  // namespace rl
