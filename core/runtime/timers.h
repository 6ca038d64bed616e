// Timers of a process: things to do at a time, run by the service thread under the core's lock.
//
// Thread rule: under the core's lock.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace troupe::worker {

class Timers {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Id = std::uint64_t;

  /// True when this timer is now the first one to expire: the service thread must be told.
  std::pair<Id, bool> add(Time when, std::function<void()> action) {
    const Id id = ++last_;
    auto at = timers_.emplace(std::pair{when, id}, std::move(action)).first;
    times_[id] = when;
    return {id, at == timers_.begin()};
  }
  void cancel(Id id) {
    if (auto found = times_.find(id); found != times_.end()) {
      timers_.erase({found->second, id});
      times_.erase(found);
    }
  }
  /// The action of the first timer that has expired; empty when none has.
  std::function<void()> take_expired(Time now) {
    if (timers_.empty() || timers_.begin()->first.first > now) return {};
    auto first = timers_.begin();
    std::function<void()> action = std::move(first->second);
    times_.erase(first->first.second);
    timers_.erase(first);
    return action;
  }
  Time next() const { return timers_.empty() ? Time::max() : timers_.begin()->first.first; }

 private:
  std::map<std::pair<Time, Id>, std::function<void()>> timers_;
  std::map<Id, Time> times_;
  Id last_ = 0;
};

}  // namespace troupe::worker
