// SAC among the algorithms (learners/sac_learner.h).
#pragma once

#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/learners/sac_learner.h"

namespace rl {

[[nodiscard]] AlgorithmConfig sac_algorithm();
[[nodiscard]] SacOptions sac_options(const RunConfig& config, const SquashedGaussianSpec& policy);

}  // namespace rl
