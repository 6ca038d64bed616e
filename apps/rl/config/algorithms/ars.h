// Augmented random search among the algorithms (learners/ars_learner.h).
#pragma once

#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/learners/ars_learner.h"

namespace rl {

[[nodiscard]] AlgorithmConfig ars_algorithm();
[[nodiscard]] ArsOptions ars_options(const RunConfig& config, const PolicySpec& policy);

}  // namespace rl
