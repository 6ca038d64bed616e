// The training run of `ppo`: starts the actors, moves refs between them, shows progress, writes what is left at the
// end.
//
// Runs in the driver. At Ctrl-C it leaves a checkpoint and returns; the runtime then ends the actors.
#pragma once

#include "apps/rl/training/command_line.h"

namespace rl {

/// 0 when the run came to its end, 1 when it failed, 130 when it was interrupted.
int train(const TrainCommand& command);

}  // namespace rl
