// Several seeds of one configuration, side by side: `rl train --seeds N`. Each is a run of its own, a process of this
// program with a cluster, a folder and a log of its own (OUT/seed-S); this one starts them, shows how far they are, and
// puts together what they have found.
//
//   waiting ──a place is free──▶ running ──its process ended──▶ ended        as many run as `parallel` says
//                                   │ Ctrl-C: passed on once
//                                   └──▶ writes its checkpoint ──▶ ended (130)
//
// The runtime's own flags (--troupe-...) do not reach the seeds; environment variables do.
//
// Inside of troupe::run; one thread.
//
// SDS-1  A seed that fails takes nothing from the others: their runs go on and are told of.
// SDS-2  Each seed's run is the one that `--seed S` alone would be, bit for bit.
// SDS-3  After Ctrl-C no process is left: each run has written its checkpoint, or was killed
//        TrainCommand::stop_deadline later.
#pragma once

#include "apps/rl/program/command_line.h"

namespace rl {

/// Writes OUT/result.json, OUT/seeds.svg and OUT/config.yaml. 0: each seed's run was 0; 1: one has failed; 3: one did
/// not solve it; 130: interrupted.
[[nodiscard]] int train_seeds(const TrainCommand& command);

}  // namespace rl
