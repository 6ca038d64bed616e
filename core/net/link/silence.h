// SilenceClock: how long a peer was silent while this process was awake to hear it. Pure.
//
//   look ... look ... look ............................ look ... look
//   |<- a tick apart ->|   stopped, starved, suspended  |<- the silence of peers counts from here on
//
// Whoever was not running itself has heard nobody: after such a gap every peer gets its whole time again.
//
// Thread rule: one thread at a time.
//
// Invariants
//   SIL-1  Time in which this process looked at nothing for more than kLateTicks ticks counts for no peer's silence.
//   SIL-2  While the looks come in time, the silence is what the kernel says.
#pragma once
#include <algorithm>
#include <chrono>
#include <optional>

#include <troupe/duration.h>

namespace troupe::net {

class SilenceClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int kLateTicks = 3;

  explicit SilenceClock(Duration tick) : tick_(tick) {}

  /// To be called at each look, and at the first.
  void look(Time now) {
    if (last_ && now - *last_ > kLateTicks * tick_) awake_since_ = now;
    last_ = now;
  }
  /// No more looks until further notice: the gap that follows means nothing.
  void pause() { last_.reset(); }
  /// What of `silence` may be held against the peer, at the last look.
  Duration counted(Duration silence) const {
    if (!last_ || !awake_since_) return silence;
    return std::min<Duration>(silence, *last_ - *awake_since_);
  }

 private:
  const Duration tick_;
  std::optional<Time> last_, awake_since_;
};

}  // namespace troupe::net
