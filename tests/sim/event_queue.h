// Discrete events: what happens when, and in the order in which it was asked for at equal times. One thread, simulated
// time.
#pragma once
#include <functional>
#include <map>
#include <utility>

#include "core/head/state/events.h"

namespace troupe::sim {

using head::Time;

class EventQueue {
 public:
  using Work = std::function<void()>;
  void at(Time when, Work work) { events_.emplace(std::pair(when < now_ ? now_ : when, next_++), std::move(work)); }
  void after(Duration delay, Work work) { at(now_ + delay, std::move(work)); }
  Time now() const { return now_; }
  /// Something goes round without any time passing.
  bool is_stuck() const { return at_once_ > kAtOnceMax; }
  /// Runs the next event; false when there is none before `end`.
  bool step(Time end) {
    if (events_.empty() || events_.begin()->first.first > end) {
      now_ = end;
      return false;
    }
    auto event = events_.extract(events_.begin());
    at_once_ = event.key().first == now_ ? at_once_ + 1 : 0;
    now_ = event.key().first;
    event.mapped()();
    return true;
  }

 private:
  static constexpr std::uint64_t kAtOnceMax = 1'000'000;
  std::map<std::pair<Time, std::uint64_t>, Work> events_;
  std::uint64_t next_ = 0, at_once_ = 0;  // the latter: events so far that are due at now_
  Time now_{};
};

}  // namespace troupe::sim
