// What several algorithms have in common of their settings, and what follows from it.
#pragma once

#include <string>
#include <vector>

#include "apps/rl/algorithms/schedule.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/learners/flat_optimizer.h"

namespace rl {

/// Most that a setting may be: far above what anybody needs, far below what overflows.
namespace most {
inline constexpr double kWorkers = 1024, kEnvs = 65536, kHorizon = 65536, kUnits = 1 << 20, kSteps = 0x1p52,
                        kEpochs = 1000, kMinibatch = 1 << 24, kNStep = 1000, kCapacity = 0x1p31, kEpisodes = 1'000'000,
                        kLearners = 64;
}

[[nodiscard]] Setting convolutions_setting(RunConfig& config);
[[nodiscard]] Setting initial_log_std_setting(RunConfig& config);
/// Of algorithms whose learners can share an update.
[[nodiscard]] Setting learners_setting(RunConfig& config);
/// Of algorithms that learn from a replay.
[[nodiscard]] std::vector<Setting> replay_settings(RunConfig& config);

[[nodiscard]] Activation activation_of(const NetworkSettings& network);
/// "16x3x1,32x3x2". InvalidArgumentError for what is not so.
[[nodiscard]] troupe::Result<std::vector<Convolution>> convolutions_of(const std::string& text);
[[nodiscard]] OptimizerKind optimizer_kind(const std::string& name);
/// The actor-critic that the network's settings make.
[[nodiscard]] troupe::Result<AnyPolicySpec> actor_critic_policy(const RunConfig& config, const EnvSpecs& specs);
/// Over all updates of a run that learns from a replay.
[[nodiscard]] LinearDecay over_updates(const RunConfig& config, double first, double last);

}  // namespace rl
