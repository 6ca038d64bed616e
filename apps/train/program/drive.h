// The driver's side of a run: starts the ranks as actors, shows what they tell, forms their group again when one is
// lost, brings a replacement, and writes what is left at the end.
//
//                 +--------- the group broke: the lost ranks' places are left, replacements are made --------+
//                 v                                                                                          |
//   create ranks, group ---> running ---- a replacement is ready: rank 0 is told ----> running, announced ---+
//                              |  ^                                                        |                 |
//                              |  +----- rank 0 left the group after a commit: formed again with all --------+
//                              v
//                         ranks are done: last news, sample, files
//
// Invariants
//   DR-1  Only the driver forms the group. A rank that the failure names is killed before the others go on without it.
//   DR-2  When no rank is left, new ones begin with the newest checkpoint; without a folder for them that is the end.
//   DR-3  At Ctrl-C, whenever it comes, the ranks are asked to stop after their step, which leaves a checkpoint; what
//         they have told is in the report.
//   DR-4  A rank on a GPU asks the runtime for one, so it sees that one and no other. Where the cluster has fewer than
//         ranks, the run is refused before anything is started.
//   DR-5  Slow is not dead: an operation waits for --step-timeout. A process that is frozen gives no heartbeat
//         (heartbeat.h), and is killed after --heartbeat-timeout, also where the others wait for it to form the group.
//   DR-6  A rank, or a replacement, that is lost while the group is formed is left out of the next attempt like one
//         that is lost later. Only that ranks are lost again and again, more often than kReplacementsMax, ends the run.
//   DR-7  A replacement that is ready is taken in at a commit: also where others find no place in the cluster (MU-1),
//         and where the group was formed again before its ranks had noticed that it broke (NB-3).
#pragma once
#include "apps/train/program/app.h"

namespace troupe::train {

/// Runs in a driver. Returns the exit code; throws Error.
int drive(const AppCommand& command);

}  // namespace troupe::train
