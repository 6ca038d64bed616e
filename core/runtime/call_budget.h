// CallBudget: how much memory of this process open calls may take: above it the submitter waits.
//
// Calls stay with their submitter until their results are here, so a submitter that is faster than its workers would
// fill the machine. What one takes is a bound, not a measurement: its arguments and kPerCall for its record, results
// and queues.
//
// Invariants
//   CB-1  used() is the sum of the charges of all open calls.
//   CB-2  A submitter is held back before its call is made, never after: a call that was admitted is never refused. So
//         used() exceeds the limit by at most one call a thread. Not held back: the service thread, and what ends
//         actors. Creations that go by the head are not charged.
//   CB-3  Who waits goes on when used() has sunk to kResume of the limit, not at each call: or each would cost a
//         wake-up.
// Thread rule: full() from any thread; the rest with the lock held.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/exec/waiter.h"

namespace troupe::worker {

class CallBudget {
 public:
  static constexpr std::size_t kPerCall = 512;   // bench/task_queued.cc measures it
  static constexpr double kResume = 0.875;

  /// No limit until then.
  void set_limit(std::uint64_t limit) { limit_ = limit; resume_ = std::uint64_t(double(limit) * kResume); }

  bool full() const { return used_.load(std::memory_order_relaxed) >= limit_; }
  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  std::uint64_t limit() const { return limit_; }

  void charge(std::size_t argument_bytes) { set(used() + argument_bytes + kPerCall); }
  void release(std::size_t argument_bytes) {
    set(used() - argument_bytes - kPerCall);
    if (waiters_.empty() || used() > resume_) return;
    for (exec::Waiter* waiter : waiters_) waiter->notify();
  }
  void add_waiter(exec::Waiter& waiter) { waiters_.push_back(&waiter); }
  void remove_waiter(exec::Waiter& waiter) { std::erase(waiters_, &waiter); }

 private:
  void set(std::uint64_t used) { used_.store(used, std::memory_order_relaxed); }  // one writer at a time: the lock

  std::uint64_t limit_ = ~std::uint64_t(0), resume_ = limit_;
  std::atomic<std::uint64_t> used_{0};
  std::vector<exec::Waiter*> waiters_;
};

}  // namespace troupe::worker
