// Whether there are GPUs for the learners of a run. Thread rule: of a driver; asks the cluster.
#pragma once

#include <troupe/result.h>

#include "apps/rl/config/run_config.h"

namespace rl {

/// With device "cuda", before anything starts. NotFoundError: the cluster has no GPU; or this node has one, but not the
/// plug-in (where it was looked for), or no driver. InvalidArgumentError: fewer GPUs than learners.
[[nodiscard]] troupe::Status check_learner_gpus(const RunConfig& config);

}  // namespace rl
