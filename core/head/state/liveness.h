// Which processes are known to be dead: reports race with deaths, and what a dead process said before must not undo its
// end.
//
// Invariants
//   LV-1  A process of a node that is not alive is dead.
//   LV-2  The last kDeadProcessesKept single deaths are remembered; frames of older dead processes are long delivered.
#pragma once
#include <deque>
#include <unordered_set>

#include "core/base/ids.h"
#include "core/head/state/membership.h"

namespace troupe::head {

inline constexpr std::size_t kDeadProcessesKept = 100'000;

class Liveness {
 public:
  explicit Liveness(const Membership& membership) : membership_(membership) {}

  /// False when it was known already.
  bool died(ProcessId process) {
    if (!dead_.insert(process).second) return false;
    order_.push_back(process);
    if (order_.size() > kDeadProcessesKept) {
      dead_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }
  bool alive(ProcessId process) const { return membership_.alive(process.node) && !dead_.contains(process); }

 private:
  const Membership& membership_;
  std::unordered_set<ProcessId, IdHash> dead_;
  std::deque<ProcessId> order_;
};

}  // namespace troupe::head
