// DeathAcks: when the store may forget a dead process. Pure.
//
//   died --every local peer that lives has drained it, or kAckWait--> drained
//                                                                     `--and it can no longer write--> may be forgotten
//
// A process that was declared dead may still write for a while: threads of this process that cannot be killed (local
// mode), or one that the kernel holds in an uninterruptible wait (state D), whose direct I/O ends only with it.
//
// Thread rule: one thread at a time.
//
// Invariants
//   DA-2  The store forgets a dead process only when all its local peers have drained it or are dead themselves, or
//         after kAckWait, and when it has ended in truth.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "core/base/ids.h"
#include <troupe/duration.h>

namespace troupe::node {

inline constexpr Duration kAckWait = std::chrono::seconds(1);

class DeathAcks {
 public:
  /// Each returns true when the store may forget `dead` now; that is said once.
  bool died(ProcessId dead, std::set<ProcessId> peers, bool may_write) {
    const bool drained = peers.empty();
    deaths_[dead] = {std::move(peers), drained, may_write};
    return settle(dead);
  }
  /// `by` has drained it.
  bool acked(ProcessId dead, ProcessId by) {
    auto it = deaths_.find(dead);
    if (it == deaths_.end()) return false;
    it->second.peers.erase(by);
    it->second.drained |= it->second.peers.empty();
    return settle(dead);
  }
  /// `peer` is dead itself: nobody waits for it any more. Who may be forgotten now.
  std::vector<ProcessId> peer_died(ProcessId peer) {
    std::vector<ProcessId> waiting, forgotten;
    for (const auto& [dead, death] : deaths_)
      if (death.peers.contains(peer)) waiting.push_back(dead);
    for (ProcessId dead : waiting)
      if (acked(dead, peer)) forgotten.push_back(dead);
    return forgotten;
  }
  bool waited_enough(ProcessId dead) {
    if (auto it = deaths_.find(dead); it != deaths_.end()) it->second.drained = true;
    return settle(dead);
  }
  /// Its threads are over, or the kernel has let it go.
  bool ended(ProcessId dead) {
    if (auto it = deaths_.find(dead); it != deaths_.end()) it->second.may_write = false;
    return settle(dead);
  }

 private:
  struct Death {
    std::set<ProcessId> peers;
    bool drained = false, may_write = false;
  };
  bool settle(ProcessId dead) {
    auto it = deaths_.find(dead);
    if (it == deaths_.end() || !it->second.drained || it->second.may_write) return false;
    deaths_.erase(it);
    return true;
  }

  std::map<ProcessId, Death> deaths_;
};

}  // namespace troupe::node
