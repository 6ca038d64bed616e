// The columns of a batch for algorithms that learn from what their present policy played (PPO, A2C), and their names as
// members.
//
//   obs, action             elements of the spaces
//   log_prob, value         what the policy said when it acted
//   advantage, returns      estimated by the runner
//   mask                    what was allowed when it acted; only where the environment masks actions
//
// ONP-1  Rows are in the order [step][environment].
#pragma once

#include <span>
#include <vector>

#include "apps/rl/samples/sample_batch.h"

namespace rl {

/// Where a rollout writes.
struct OnPolicyOut {
  Rows obs, action;
  std::span<float> log_prob, value, advantage, returns;
  Rows mask = {};  // without rows where there is none
};

/// What an update reads.
struct OnPolicyView {
  ConstRows obs, action;
  std::span<const float> log_prob, value, advantage, returns;
  ConstRows mask = {};  // without rows where there is none

  [[nodiscard]] std::size_t rows() const { return value.size(); }
};

/// `mask_width`: bytes of a row of the mask; 0: there is none.
[[nodiscard]] std::vector<Column> on_policy_columns(const Space& observation_space, const Space& action_space,
                                                    std::size_t mask_width = 0);
[[nodiscard]] OnPolicyOut on_policy_out(const SampleLayout& layout, std::byte* memory);
[[nodiscard]] OnPolicyView on_policy_view(const SampleView& samples);

}  // namespace rl
