// Restart supervision as in Erlang/OTP: how often may an actor come back, and how long does it wait before it does.
//
// Pure: time and randomness are arguments.
//
// Invariants
//   SUP-1  At most max_restarts restarts begin within any restart_window; one crash more, and the actor is dead for
//          good.
//   SUP-2  max_restarts = kNoLimit always restarts; 0 never.
//   SUP-3  The delay grows with the restarts inside the window and starts anew when the window is clear.
#pragma once
#include <optional>
#include <vector>

#include "core/head/state/events.h"
#include "core/base/random.h"

namespace troupe::head {

struct RestartRule {
  std::int32_t max_restarts = 0;
  Duration window = std::chrono::seconds(60);
  Backoff backoff;
};

/// The restarts of one actor that still count.
class RestartHistory {
 public:
  /// The actor crashed now: the delay before its restart, or nothing: dead for good.
  std::optional<Duration> on_crash(Time now, const RestartRule& rule, Random& random);
  std::size_t in_window() const { return restarts_.size(); }

 private:
  std::vector<Time> restarts_;  // ascending, few: a deque would take half a kilobyte an actor
};

}  // namespace troupe::head
