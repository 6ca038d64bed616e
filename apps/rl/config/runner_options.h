// The options of those who play and keep, as a run's configuration says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "apps/rl/config/run_config.h"
#include "apps/rl/replay/replay_buffer.h"
#include "apps/rl/training/fragment_runner.h"
#include "apps/rl/training/perturbation_runner.h"
#include "apps/rl/training/rollout.h"
#include "apps/rl/training/transition_runner.h"

namespace rl {

[[nodiscard]] RolloutOptions rollout_options(const RunConfig& config, const PolicySpec& policy, std::size_t worker,
                                             std::int64_t resumed_from);
[[nodiscard]] FragmentRunnerOptions fragment_runner_options(const RunConfig& config, const PolicySpec& policy,
                                                            std::size_t runner, std::int64_t resumed_from);
[[nodiscard]] TransitionRunnerOptions transition_runner_options(const RunConfig& config, const AnyPolicySpec& policy,
                                                                std::size_t runner, std::int64_t resumed_from);
[[nodiscard]] PerturbationRunnerOptions perturbation_runner_options(const RunConfig& config, const PolicySpec& policy);
/// Of one shard. `mask_width`: of an environment that masks actions (mask_width_of).
[[nodiscard]] ReplayBufferOptions replay_options(const RunConfig& config, const AnyPolicySpec& policy,
                                                 std::size_t mask_width = 0);

}  // namespace rl
