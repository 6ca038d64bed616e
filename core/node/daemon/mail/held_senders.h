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
//   HSD-3  Whoever was told to wait is held only when it has sent more than kAfterTold all the same: what was under
//          way, at the least, is let through, so that one who keeps to it is never held.
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/ids.h"

namespace troupe::node {

class HeldSenders {
 public:
  using Senders = std::vector<ProcessId>;
  static constexpr std::size_t kAfterTold = std::size_t{8} << 20;

  /// True: it was not held before.
  bool hold(ProcessId sender, ProcessId cause) {
    std::set<ProcessId>& causes = causes_[sender];
    const bool first = causes.empty();
    causes.insert(cause);
    return first;
  }
  /// It has sent so much to a clogged process since it was told (HSD-3). True: it was not held before.
  bool sent_all_the_same(ProcessId sender, ProcessId clogged, std::size_t bytes) {
    std::size_t& sum = sent_[{clogged, sender}];
    sum += bytes;
    return sum > kAfterTold && hold(sender, clogged);
  }
  Senders release(ProcessId cause) {
    Senders free;
    std::erase_if(sent_, [&](const auto& one) { return one.first.first == cause; });
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
    std::erase_if(sent_, [&](const auto& one) { return one.first.second == dead; });
    return release(dead);
  }
  bool is_held(ProcessId sender) const { return causes_.contains(sender); }

 private:
  std::map<ProcessId, std::set<ProcessId>> causes_;
  std::map<std::pair<ProcessId, ProcessId>, std::size_t> sent_;  ///< by the clogged one and the sender
};

}  // namespace troupe::node
