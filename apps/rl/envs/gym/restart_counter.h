// Restart intensity, as OTP's supervisors have it: at most so many restarts within a period.
//
// Pure: the time comes with the question. One thread at a time.
//
//   RIN-1  The restart that would be one more than `most` within `period` is refused; it is not counted then.
//   RIN-2  The time that a failed restart took does not count for the period: attempts that each take as long as the
//          period are refused, too.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>

namespace rl {

struct RestartLimit {
  std::size_t most = 5;
  std::chrono::milliseconds period{60'000};
};

class RestartCounter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit RestartCounter(RestartLimit limit) : limit_(limit) {}

  /// Counts one more, unless that is too many.
  [[nodiscard]] bool allow(Time now) {
    now -= failing_;
    while (!times_.empty() && now - times_.front() >= limit_.period) times_.pop_front();
    if (times_.size() >= limit_.most) return false;
    times_.push_back(now);
    return true;
  }
  /// Of the restart that was allowed last, pauses before it included.
  void failed(std::chrono::steady_clock::duration took) { failing_ += took; }
  /// Restarts within the period before the last question.
  [[nodiscard]] std::size_t recent() const { return times_.size(); }

 private:
  RestartLimit limit_;
  std::deque<Time> times_;  // less what had failed by then
  std::chrono::steady_clock::duration failing_{0};
};

}  // namespace rl
