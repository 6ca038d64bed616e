// Congestion: which processes, or nodes ({node, 0}), take nothing of what waits for them in a daemon, and whom that
// was told: processes of this node that send there (they keep their frames then, CR-4), and the daemons of other nodes
// whose processes do. Pure.
//
//   open --waits > kHigh, or its daemon says so--> clogged --waits < kLow, dead, or its daemon says so--> open
//
// Thread rule: one thread at a time.
//
// Invariants
//   CGN-1  A listener is told once that a process is clogged, and once that it is open again.
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
  /// Its daemon says so.
  void mark(ProcessId process) { clogged_[process]; }
  /// Whom to tell that it is open again.
  std::vector<ProcessId> open(ProcessId process) {
    const auto at = clogged_.find(process);
    if (at == clogged_.end()) return {};
    const std::vector<ProcessId> told(at->second.begin(), at->second.end());
    clogged_.erase(at);
    return told;
  }
  /// The listener must be told. False: it was.
  bool tell(ProcessId clogged, ProcessId listener) { return clogged_[clogged].insert(listener).second; }
  bool any() const { return !clogged_.empty(); }
  bool is_clogged(ProcessId process) const { return clogged_.contains(process); }

  struct Opened { ProcessId process; std::vector<ProcessId> told; };
  /// `backlog` says what waits for a process now; 0 for one that is gone.
  template <class Backlog>
  std::vector<Opened> look(const Backlog& backlog) {
    std::vector<Opened> opened;
    for (auto at = clogged_.begin(); at != clogged_.end();) {
      const ProcessId process = at++->first;
      if (backlog(process) < kLow) opened.push_back({process, open(process)});
    }
    return opened;
  }
  /// Those of a dead node.
  std::vector<ProcessId> of_node(std::uint32_t node) const {
    std::vector<ProcessId> found;
    for (const auto& [process, told] : clogged_)
      if (process.node == node) found.push_back(process);
    return found;
  }

 private:
  std::map<ProcessId, std::set<ProcessId>> clogged_;  ///< and who was told
};

}  // namespace troupe::node
