// Which processes are known to be dead: reports race with deaths, and what a dead process said before must not undo its
// end.
//
// Invariants
//   LV-1  A process of a node that is not alive is dead.
//   LV-2  The last kDeadProcessesKept single deaths are remembered; frames of older dead processes are long delivered.
#pragma once
#include "core/base/ids.h"
#include "core/base/recent_set.h"
#include "core/head/state/membership.h"

namespace troupe::head {

inline constexpr std::size_t kDeadProcessesKept = 100'000;

class Liveness {
 public:
  explicit Liveness(const Membership& membership) : membership_(membership) {}

  /// False when it was known already.
  bool died(ProcessId process) { return dead_.insert(process); }
  bool alive(ProcessId process) const { return membership_.alive(process.node) && !dead_.contains(process); }

 private:
  const Membership& membership_;
  RecentSet<ProcessId, IdHash> dead_{kDeadProcessesKept};  // LV-2
};

}  // namespace troupe::head
