// IMPALA among the algorithms (learners/impala_learner.h).
#pragma once

#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/learners/impala_learner.h"

namespace rl {

[[nodiscard]] AlgorithmConfig impala_algorithm();
[[nodiscard]] ImpalaOptions impala_options(const RunConfig& config, const PolicySpec& policy);

}  // namespace rl
