#include "apps/rl/algorithms/gae.h"

#include "kernels/cpu/scans/scans.h"

namespace rl {

template <class T>
void generalized_advantages(const GaeInput<T>& in, const GaeOptions& options, std::span<T> advantage,
                            std::span<T> returns) {
  const troupe::kernels::GaeArrays<T> arrays{
      .reward = in.reward.data(), .value = in.value.data(), .final_value = in.final_value.data(),
      .terminated = in.terminated.data(), .truncated = in.truncated.data(), .last_value = in.last_value.data(),
      .advantage = advantage.data(), .returns = returns.data()};
  troupe::kernels::gae_scan(troupe::kernels::best_isa(), {in.steps, in.envs}, arrays, {options.gamma, options.lambda});
}

template void generalized_advantages<float>(const GaeInput<float>&, const GaeOptions&, std::span<float>,
                                            std::span<float>);
template void generalized_advantages<double>(const GaeInput<double>&, const GaeOptions&, std::span<double>,
                                             std::span<double>);

}  // namespace rl
