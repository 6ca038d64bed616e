// Behavioural cloning among the algorithms (learners/bc_learner.h). A "step" of such a run is a sample learned from: it
// plays no environment but for its copies' evaluation.
#pragma once

#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/learners/bc_learner.h"

namespace rl {

[[nodiscard]] AlgorithmConfig bc_algorithm();
[[nodiscard]] BcOptions bc_options(const RunConfig& config, const PolicySpec& policy);

}  // namespace rl
