#include "apps/rl/algorithms/vtrace.h"

#include "kernels/cpu/scans/scans.h"

namespace rl {

template <class T>
void vtrace(const VtraceInput<T>& in, const VtraceOptions& options, std::span<T> vs, std::span<T> pg_advantage) {
  const troupe::kernels::VtraceArrays<T> arrays{
      .behaviour_log_prob = in.behaviour_log_prob.data(), .target_log_prob = in.target_log_prob.data(),
      .discount = in.discount.data(), .reward = in.reward.data(), .value = in.value.data(),
      .bootstrap_value = in.bootstrap_value.data(), .vs = vs.data(), .pg_advantage = pg_advantage.data()};
  troupe::kernels::vtrace_scan(troupe::kernels::best_isa(), {in.steps, in.envs}, arrays,
                               {options.rho_bar, options.c_bar, options.pg_rho_bar, options.lambda});
}

template void vtrace<float>(const VtraceInput<float>&, const VtraceOptions&, std::span<float>, std::span<float>);
template void vtrace<double>(const VtraceInput<double>&, const VtraceOptions&, std::span<double>, std::span<double>);

}  // namespace rl
