// Rendezvous: how processes that no driver made find each other at HOST:PORT. Rank 0 listens there until all have come; the
// others tell it who they are, and get the table of all.
//
//   rank r -> rank 0    Card     | magic | version | build | rank | size | backend | token | machine | pid | where r listens |
//   rank 0 -> rank r    Verdict  | 0 or an error text | backend | key | pid and descriptor of the memory | ranks x Card |
//
// With kAuto, and for the control links of kNccl, they share memory when all are processes of one machine (the same boot, user and process namespace, so that each
// can open what another has open), else they use sockets (tcp_mesh.h).
//
// Invariants
//   RV-1  Who has another version or build, another number of ranks, another token, or comes twice is refused by name; the
//         rank that was refused hears why.
//   RV-2  When it returns or throws nobody listens at the address any more.
// Thread rule: any thread; waits until the deadline at most.
#pragma once
#include <memory>
#include <string>

#include "collective/communicator.h"

namespace troupe::collective {

struct MeetingPlan {
  std::string group, address, token;
  int rank = 0, size = 1;
  Backend backend = Backend::kAuto;
  bool deterministic = false;
  Clock::time_point deadline{};
};

/// Throws CollectiveError: kTimeout names who did not come, kMismatch what differs.
std::unique_ptr<Communicator> meet_at(const MeetingPlan& plan);

}  // namespace troupe::collective
