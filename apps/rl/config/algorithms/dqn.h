// DQN among the algorithms (learners/dqn_learner.h).
#pragma once

#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/learners/dqn_learner.h"

namespace rl {

[[nodiscard]] AlgorithmConfig dqn_algorithm();
[[nodiscard]] DqnOptions dqn_options(const RunConfig& config, const QNetworkSpec& policy);

}  // namespace rl
