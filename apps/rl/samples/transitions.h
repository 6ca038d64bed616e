// The columns of a batch of transitions, for algorithms that learn from what any policy has played (DQN, SAC), and
// their names as members.
//
//   obs, action    elements of the spaces
//   reward         float32: the discounted sum of the steps of the window
//   next_obs       what the window ended with
//   discount       float32: of the value of next_obs: gamma^steps, 0 after a termination
//   next_mask      what is allowed at next_obs, a byte a choice (BatchEnv::action_mask); only where the environment
//                  masks actions
//   weight         float32: an importance weight; only in what a replay has drawn, every row counts 1 without it
//
// TRN-1  A transition does not know how many steps its window had: reward and discount say all that a target needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/rl/samples/sample_batch.h"

namespace rl {

struct TransitionView {
  ConstRows obs, action, next_obs;
  std::span<const float> reward, discount, weight;
  std::span<const std::uint8_t> next_mask = {};  // empty: everything is allowed

  [[nodiscard]] std::size_t rows() const { return reward.size(); }
};

inline constexpr const char* kNextMaskColumn = "next_mask";

/// `mask_width`: bytes of a row of next_mask; 0: there is none.
[[nodiscard]] std::vector<Column> transition_columns(const Space& observation_space, const Space& action_space,
                                                     std::size_t mask_width = 0);
/// InvalidArgumentError, thrown, for a batch without those columns, or of other spaces.
[[nodiscard]] TransitionView transition_view(const SampleView& samples, const Space& observation_space,
                                             const Space& action_space);

}  // namespace rl
