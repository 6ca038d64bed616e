#include "apps/rl/gae.h"

namespace rl {

template <class T>
void generalized_advantages(const GaeInput<T>& in, const GaeOptions& options, std::span<T> advantage,
                            std::span<T> returns) {
  const T gamma = static_cast<T>(options.gamma);
  const T gamma_lambda = static_cast<T>(options.gamma * options.lambda);
  for (std::size_t t = in.steps; t-- > 0;) {
    for (std::size_t n = 0; n < in.envs; ++n) {
      const std::size_t i = t * in.envs + n;
      const bool terminated = in.terminated[i] != 0;
      const bool ended = terminated || in.truncated[i] != 0;
      const bool last = t + 1 == in.steps;
      const T following = ended ? in.final_value[i] : last ? in.last_value[n] : in.value[i + in.envs];
      const T delta = in.reward[i] + (terminated ? T{0} : gamma * following) - in.value[i];
      advantage[i] = delta + (ended || last ? T{0} : gamma_lambda * advantage[i + in.envs]);
      returns[i] = advantage[i] + in.value[i];
    }
  }
}

template void generalized_advantages<float>(const GaeInput<float>&, const GaeOptions&, std::span<float>,
                                            std::span<float>);
template void generalized_advantages<double>(const GaeInput<double>&, const GaeOptions&, std::span<double>,
                                             std::span<double>);

}  // namespace rl
