// Heartbeat: tells a rank that is frozen from one that is slow. A rank answers on a thread of its own while it trains
// or writes a checkpoint, so a long step costs no answer; a process that is stopped gives none.
//
// Invariants
//   HB-1  Only time in which somebody looked counts as silence: a driver that was itself stopped, or busy, between two
//         looks adds one look's worth (kLookMax), and hears what has come meanwhile first.
// Thread rule: pure; the time comes with the event.
#pragma once
#include <algorithm>
#include <chrono>

#include <troupe/duration.h>

namespace troupe::train {

class Heartbeat {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr Duration kLookMax = std::chrono::seconds(1);

  Heartbeat(Duration limit, TimePoint now) : limit_(limit), looked_(now) {}

  /// Somebody has looked whether the answer is there.
  void look(TimePoint now, bool answered) {
    silence_ = answered ? Duration::zero() : silence_ + std::min<Duration>(now - looked_, kLookMax);
    looked_ = now;
  }
  bool frozen() const { return silence_ >= limit_; }

 private:
  Duration limit_, silence_{};
  TimePoint looked_;
};

}  // namespace troupe::train
