// Loop: the daemon's one thread. Descriptors, timers, work posted by other threads, and a poller that is asked before
// sleeping.
//
// Thread rule: post and quit from any thread; everything else on the loop's own thread (handlers run there).
//
// Invariants
//   LO-1  A handler is never called after forget(fd) or cancel(id) returned, not even for events of the same round.
//   LO-2  Posted functions run in the order in which they were posted; those posted after the loop ended are dropped.
//   LO-3  Before it sleeps the loop has asked the poller and it had nothing.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/fd.h"
#include <troupe/duration.h>
#include <troupe/result.h>

namespace troupe::node {

class Loop {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using FdHandler = std::function<void(std::uint32_t events)>;
  using Work = std::function<void()>;
  using TimerId = std::pair<TimePoint, std::uint64_t>;
  using Clock = std::function<TimePoint()>;

  /// The clock decides when timers are due; tests give one of their own, and drive the loop by pass().
  static Result<std::unique_ptr<Loop>> create(Clock clock = &std::chrono::steady_clock::now);

  // ---- descriptors; events as for epoll
  void watch(int fd, std::uint32_t events, FdHandler handler);
  void rearm(int fd, std::uint32_t events);
  void forget(int fd);

  // ---- timers
  TimerId at(TimePoint when, Work work);
  TimerId after(Duration delay, Work work) {
    return at(now() + std::chrono::duration_cast<TimePoint::duration>(delay), std::move(work));
  }
  void cancel(TimerId id) { timers_.erase(id); }
  /// When the next timer is due, for whoever drives the loop by hand.
  std::optional<TimePoint> next_timer() const {
    return timers_.empty() ? std::nullopt : std::optional(timers_.begin()->first.first);
  }

  // ---- other threads
  void post(Work work);
  void quit(int code);

  /// `poll` does what is there to do outside of descriptors and says whether there was any. Returns quit's code.
  int run(const std::function<bool()>& poll, Duration spin);
  /// One pass that does not sleep: posted work, due timers, ready descriptors. For whoever drives the loop by hand
  /// (tests).
  void pass();
  TimePoint now() const { return clock_(); }

 private:
  struct Watched { std::uint64_t generation = 0; FdHandler handler; };
  explicit Loop(Clock clock) : clock_(std::move(clock)) {}
  void wait(int timeout_ms);
  bool run_posted();
  bool run_timers();
  int until_next_timer() const;

  const Clock clock_;
  UniqueFd epoll_, event_;
  std::unordered_map<int, std::shared_ptr<Watched>> watched_;
  std::uint64_t next_generation_ = 1, next_timer_ = 1;
  std::map<TimerId, Work> timers_;
  std::mutex mutex_;
  std::vector<Work> posted_;  // under mutex_
  bool ended_ = false;        // under mutex_
  bool quit_ = false;
  int code_ = 0;
};

}  // namespace troupe::node
