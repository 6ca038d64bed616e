// Meeting at a path: processes of one machine. Rank 0 makes the memory and listens on a socket in the file system; the
// others connect, show their cards (reception.h), and are given the descriptor with the verdict.
//
//   rank 0:  binds and listens aside, then names the socket PATH by a hard link: nobody sees it before it works
//            PATH is there: a living socket is another rank 0's; a dead one is set aside and removed; anything else is
//            foreign
//
// Invariants
//   JP-1  Only a socket on which nobody listens is ever removed, and the own one. A foreign file is an
//         InvalidArgumentError.
//   JP-2  A second rank 0 at the path is refused (kMismatch); the first one goes on.
//   JP-3  When it returns or throws, the path is free again. Only the user who made the socket can connect to it.
//   JP-4  A rank shows nothing to, and takes nothing from, a socket that another user made: /tmp is everybody's.
//   JP-5  The first connection of a rank that dials is the one on which it speaks, for those who take in one, as a
//         relay does.
// Thread rule: any thread; waits until the deadline at most.
#pragma once
#include <memory>

#include "collective/base/communicator.h"
#include "collective/group/reception.h"

namespace troupe::collective {

/// Throws CollectiveError: kTimeout names who did not come, kMismatch what differs; InvalidArgumentError (JP-1).
std::unique_ptr<Communicator> meet_at_path(const MeetingPlan& plan);

}  // namespace troupe::collective
