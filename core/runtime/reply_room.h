// ReplyRoom: callers that do not take the replies to what they asked for, so that nothing more is begun for them here
// (their calls), or answered (the values that they asked for: late_answers.h). Pure.
//
//   open --their replies that wait in this process > kHigh--> held --< kLow, or they are dead--> open
//
// What a call's arguments take is charged to its caller (CallBudget); its results are made here, and lie in the memory
// of this process while the caller is frozen.
//
// Thread rule: one thread at a time.
//
// Invariants
//   XRR-1  Nothing begins for a held caller, so what waits here for it is at most kHigh, one reply of each call that
//          was open already (of an actor: its limits; of tasks: one, and one a shared lease), and less than kLarge for
//          each call of its own that had come. With the values that it asked for (LAN-1) that is all: decision 022.
//   XRR-2  Nobody else waits for that: calls of others pass (hosted_actor.h HA-4).
#pragma once
#include <cstddef>
#include <set>
#include <vector>

#include "core/base/ids.h"

namespace troupe::worker {

class ReplyRoom {
 public:
  static constexpr std::size_t kHigh = std::size_t{8} << 20, kLow = std::size_t{2} << 20;
  /// A reply of less does not ask: its room is in what its call was charged with.
  static constexpr std::size_t kLarge = 1024;

  bool any() const { return !held_.empty(); }
  bool is_held(ProcessId caller) const { return !held_.empty() && held_.contains(caller); }
  /// So much of replies to the caller waits here now. True: it is held from now on.
  bool waits(ProcessId caller, std::size_t bytes) { return bytes > kHigh && held_.insert(caller).second; }
  /// Those that are held no more. `backlog` says what waits for a caller; 0 for one that is dead.
  template <class Backlog> std::vector<ProcessId> look(const Backlog& backlog) {
    std::vector<ProcessId> open;
    for (ProcessId caller : held_)
      if (backlog(caller) < kLow) open.push_back(caller);
    for (ProcessId caller : open) held_.erase(caller);
    return open;
  }

 private:
  std::set<ProcessId> held_;
};

}  // namespace troupe::worker
