// A training run: rollout actors and a learner actor, what the user sees of it, and what is left on disk.
#pragma once

#include "apps/rl/program/command_line.h"

namespace rl {

/// Trains, writes picture, result, checkpoint and policy, and returns the exit code. Inside of troupe::run.
[[nodiscard]] int train(const TrainCommand& command);

}  // namespace rl
