#include "apps/rl/algorithms/dqn.h"

#include <algorithm>
#include <cmath>

#include "apps/rl/algorithms/masked_choice.h"

namespace rl {

NStepReturn n_step_return(std::span<const double> reward, std::span<const std::uint8_t> terminated,
                          std::span<const std::uint8_t> truncated, double gamma) {
  NStepReturn out{.steps_used = 0, .discounted_reward = 0, .bootstrap_discount = 1};
  for (std::size_t i = 0; i < reward.size(); ++i) {
    out.discounted_reward += out.bootstrap_discount * reward[i];
    out.bootstrap_discount *= gamma;
    ++out.steps_used;
    if (terminated[i] != 0) out.bootstrap_discount = 0;
    if (terminated[i] != 0 || truncated[i] != 0) break;
  }
  return out;
}

std::size_t greedy_action(std::span<const double> q) {
  return static_cast<std::size_t>(std::max_element(q.begin(), q.end()) - q.begin());
}

double dqn_target(const NStepReturn& n, std::span<const double> q_target_next, std::span<const std::uint8_t> allowed) {
  return n.discounted_reward + n.bootstrap_discount * q_target_next[best_allowed(q_target_next, allowed)];
}

double double_dqn_target(const NStepReturn& n, std::span<const double> q_online_next,
                         std::span<const double> q_target_next, std::span<const std::uint8_t> allowed) {
  return n.discounted_reward + n.bootstrap_discount * q_target_next[best_allowed(q_online_next, allowed)];
}

double huber(double error) {
  const double size = std::abs(error);
  return size <= 1 ? 0.5 * error * error : size - 0.5;
}

}  // namespace rl
