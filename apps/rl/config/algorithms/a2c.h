// A2C among the algorithms (learners/a2c_learner.h).
#pragma once

#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/learners/a2c_learner.h"

namespace rl {

[[nodiscard]] AlgorithmConfig a2c_algorithm();
[[nodiscard]] A2cOptions a2c_options(const RunConfig& config, const PolicySpec& policy);

}  // namespace rl
