// Targets of deep Q-learning: n-step returns, DQN and double DQN, Huber loss. Pure; double throughout.
//
// DQ-1  The window stops at the first end. A termination does not bootstrap; a truncation does, with
//       gamma^steps_used; with both flags termination wins. What stands in the window after its end is ignored.
// DQ-2  The greedy action is the first of equal maxima; of those that are allowed, where a mask says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rl {

struct NStepReturn {
  std::int64_t steps_used = 0;
  double discounted_reward = 0;
  double bootstrap_discount = 0;  // 0 after a termination
};

/// One sample: the rewards and flags of its window, oldest first.
[[nodiscard]] NStepReturn n_step_return(std::span<const double> reward, std::span<const std::uint8_t> terminated,
                                        std::span<const std::uint8_t> truncated, double gamma);

/// The index of the largest value (DQ-2).
[[nodiscard]] std::size_t greedy_action(std::span<const double> q);

/// Bootstraps from the target network's own maximum.
[[nodiscard]] double dqn_target(const NStepReturn& n, std::span<const double> q_target_next,
                                std::span<const std::uint8_t> allowed = {});

/// Bootstraps from the target network at the online network's choice.
[[nodiscard]] double double_dqn_target(const NStepReturn& n, std::span<const double> q_online_next,
                                       std::span<const double> q_target_next,
                                       std::span<const std::uint8_t> allowed = {});

/// Huber loss with delta 1.
[[nodiscard]] double huber(double error);

}  // namespace rl
