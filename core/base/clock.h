// Time as something that is handed in: state machines ask a Clock, tests and the simulator turn it by hand.
//
// Invariants
//   CLK-1  now() never goes back. It has nothing to do with the time of day.
// Thread rule: now() from any thread; ManualClock::advance from any thread.
#pragma once
#include <atomic>
#include <chrono>

#include <troupe/duration.h>

namespace troupe {

/// A point on the monotonic clock of this machine, in nanoseconds. Comparable within one machine only.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

/// The machine's own.
class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

/// Stands still until it is advanced.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Duration since_start = {}) : nanoseconds_(since_start.count()) {}
  TimePoint now() const override { return TimePoint(Duration(nanoseconds_.load(std::memory_order_relaxed))); }
  void advance(Duration by);

 private:
  std::atomic<Duration::rep> nanoseconds_;
};

/// When a wait of `timeout` that begins now ends; TimePoint::max() for kForever and for what is too far away to count.
inline TimePoint deadline_after(TimePoint now, Duration timeout) {
  return timeout >= TimePoint::max() - now ? TimePoint::max() : now + timeout;
}
/// What is left until the deadline: never negative, kForever for TimePoint::max().
inline Duration time_left(TimePoint now, TimePoint deadline) {
  if (deadline == TimePoint::max()) return kForever;
  return deadline > now ? deadline - now : Duration::zero();
}

}  // namespace troupe
