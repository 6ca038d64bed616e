// WorkerStock: of how many plain workers of each job a fork is under way that no request has asked for: the stock of
// idle ones, used by no task yet (WPL-5), that is kept so that an actor or a task finds a process that runs already.
// Pure.
//
//   missing() forks are begun --begun()--> starting --ready, failed, claim() by a request--> out
//
// Thread rule: one thread at a time.
//
// Invariants
//   NDW-1  starting >= 0; a request waits for a fork of the stock or for one of its own, never for both.
#pragma once
#include <algorithm>
#include <map>

#include "core/base/ids.h"

namespace troupe::node {

inline constexpr int kStockMax = 16;

class WorkerStock {
 public:
  /// `cpus`: of the node. One idle worker for each, at least one, at most kStockMax.
  explicit WorkerStock(double cpus) : size_(std::clamp(static_cast<int>(cpus), 1, kStockMax)) {}
  int size() const { return size_; }

  void begun(JobId job) { ++starting_[job]; }
  void ready(JobId job) { take(job, 1); }
  void failed(JobId job) { take(job, 1); }
  /// Of `wanted` workers that a request needs, how many are on their way already.
  int claim(JobId job, int wanted) { return take(job, wanted); }
  /// How many forks bring the stock to its size.
  int missing(JobId job, int idle) const { return std::max(0, size_ - idle - starting(job)); }
  int starting(JobId job) const {
    auto it = starting_.find(job);
    return it == starting_.end() ? 0 : it->second;
  }
  void forget(JobId job) { starting_.erase(job); }

 private:
  int take(JobId job, int wanted) {
    auto it = starting_.find(job);
    if (it == starting_.end()) return 0;
    const int taken = std::min(wanted, it->second);
    it->second -= taken;
    if (it->second == 0) starting_.erase(it);
    return taken;
  }

  const int size_;
  std::map<JobId, int> starting_;
};

}  // namespace troupe::node
