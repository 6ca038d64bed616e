// Retirement: idle workers that nobody has used for a while are asked to end, and may refuse. Here: which, and what
// becomes of them in the lease queue; whoever uses it asks them. Pure.
//
//   idle in the queue --ask()--> asked, not of the queue --it ends: over()--> gone
//         ^-------------refused()----------'
//
// Thread rule: one thread at a time. Time is given.
//
// Invariants
//   RTR-1  Who is asked is not of the queue: no lease and no actor goes to a worker that may be about to end.
//   RTR-2  Who refuses is idle there again, once; who is over is not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "scheduler/lease_queue.h"

namespace troupe::node {

class Retirement {
 public:
  explicit Retirement(sched::LeaseQueue& queue) : queue_(queue) {}

  /// Those beyond `keep` of a plain kind that have been idle since before `since`: each is to be asked.
  std::vector<ProcessId> ask(std::size_t keep, TimePoint since);
  /// It has work, or others hold what it owns.
  void refused(ProcessId worker, std::int32_t pid, const sched::WorkerKind& kind, TimePoint now);
  /// It ends, or has ended.
  void over(ProcessId worker) { asked_.erase(worker); }

 private:
  sched::LeaseQueue& queue_;
  std::set<ProcessId> asked_;
};

}  // namespace troupe::node
