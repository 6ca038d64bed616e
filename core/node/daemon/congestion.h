// Congestion: which processes of this node take nothing of what waits for them in the daemon, and which nodes were told. Pure.
//
//   open --waits > kHigh--> clogged (senders are held: HeldSenders; other nodes' daemons are told) --waits < kLow, dead--> open
//
// Thread rule: one thread at a time.
//
// Invariants
//   CGN-1  A node is told once that a process is clogged, and once that it is open again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/base/ids.h"

namespace troupe::node {

class Congestion {
 public:
  static constexpr std::size_t kHigh = std::size_t{4} << 20, kLow = std::size_t{1} << 20;

  /// So much waits for the process now. True: it is clogged.
  bool waits(ProcessId process, std::size_t bytes) {
    if (bytes > kHigh) clogged_[process];
    return clogged_.contains(process);
  }
  /// A sender of that node must be told. False: it was.
  bool tell(ProcessId clogged, std::uint32_t node) { return clogged_[clogged].insert(node).second; }
  bool any() const { return !clogged_.empty(); }
  bool is_clogged(ProcessId process) const { return clogged_.contains(process); }

  struct Opened { ProcessId process; std::vector<std::uint32_t> told; };
  /// `backlog` says what waits for a process now; 0 for one that is gone.
  template <class Backlog>
  std::vector<Opened> look(const Backlog& backlog) {
    std::vector<Opened> opened;
    for (auto at = clogged_.begin(); at != clogged_.end();) {
      const bool open = backlog(at->first) < kLow;
      if (open) opened.push_back({at->first, {at->second.begin(), at->second.end()}});
      at = open ? clogged_.erase(at) : std::next(at);
    }
    return opened;
  }

 private:
  std::map<ProcessId, std::set<std::uint32_t>> clogged_;  ///< and the nodes that were told
};

}  // namespace troupe::node
