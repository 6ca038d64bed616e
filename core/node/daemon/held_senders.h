// HeldSenders: which processes of this node are kept from sending, and for whose sake. Pure.
//
//   hold(sender, cause) ... release(cause) --> the senders that nothing holds any more
//
// A cause is a process that takes nothing, or a node ({node, 0}; the head is {0, 0}) for which too much waits already.
//
// Thread rule: one thread at a time.
//
// Invariants
//   HSD-1  A sender is let go when the last of its causes is released or forgotten, and not before; that is said once.
//   HSD-2  A dead process holds nobody and is not let go.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/base/ids.h"

namespace troupe::node {

class HeldSenders {
 public:
  using Senders = std::vector<ProcessId>;

  /// True: it was not held before.
  bool hold(ProcessId sender, ProcessId cause) {
    std::set<ProcessId>& causes = causes_[sender];
    const bool first = causes.empty();
    causes.insert(cause);
    return first;
  }
  Senders release(ProcessId cause) {
    Senders free;
    for (auto at = causes_.begin(); at != causes_.end();) {
      const bool last = at->second.erase(cause) > 0 && at->second.empty();
      if (last) free.push_back(at->first);
      at = last ? causes_.erase(at) : std::next(at);
    }
    return free;
  }
  /// The process is dead.
  Senders forget(ProcessId dead) {
    causes_.erase(dead);
    return release(dead);
  }
  bool is_held(ProcessId sender) const { return causes_.contains(sender); }

 private:
  std::map<ProcessId, std::set<ProcessId>> causes_;
};

}  // namespace troupe::node
