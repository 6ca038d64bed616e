// A run under mpirun or torchrun: every process is a rank, they join a group without actors, and rank 0 reports.
//
// A rank that is lost ends the run (its launcher would end it anyhow); --resume goes on from the last checkpoint.
// SIGINT and SIGTERM stop it after the step under way, with a checkpoint.
#pragma once
#include "apps/train/program/app.h"

namespace troupe::train {

/// Returns the exit code; throws Error.
int train_joined(const AppCommand& command, const LaunchedRank& launched);

}  // namespace troupe::train
