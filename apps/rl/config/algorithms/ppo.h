// PPO among the algorithms (learners/ppo_learner.h).
#pragma once

#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/learners/ppo_learner.h"

namespace rl {

[[nodiscard]] AlgorithmConfig ppo_algorithm();
[[nodiscard]] PpoOptions ppo_options(const RunConfig& config, const PolicySpec& policy);

}  // namespace rl
