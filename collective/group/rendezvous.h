// Rendezvous: how processes that no driver made find each other at HOST:PORT. Rank 0 listens there until all have come
// (reception.h); the others tell it who they are, and get the table of all cards.
//
// With kAuto, and for the control links of kNccl, they share memory when all are processes of one machine (the same
// boot, user and process namespace, so that each can open what another has open), else they use sockets (tcp/mesh.h).
//
// Invariants
//   RV-1  Who has another version or build, another group, number of ranks or token, or comes twice is refused by name;
//         a disagreement is told to all (RC-3).
//   RV-2  When it returns or throws nobody listens at the address any more.
//   RV-3  A rank that has no descriptor for a socket fails by itself (kBackend) and names nobody.
// Thread rule: any thread; waits until the deadline at most.
#pragma once
#include <memory>

#include "collective/base/communicator.h"
#include "collective/group/reception.h"

namespace troupe::collective {

/// Throws CollectiveError: kTimeout names who did not come, kMismatch what differs; kBackend, that this process has no
/// socket for it, names nobody. InvalidArgumentError: no such host or port.
std::unique_ptr<Communicator> meet_at(const MeetingPlan& plan);

}  // namespace troupe::collective
