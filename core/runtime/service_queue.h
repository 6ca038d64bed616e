// ServiceQueue: what the service thread of a process is to do: timers, which run under the lock, and callbacks, which
// are user code and run without it.
//
// Thread rule: lock held, but for run_due.
#pragma once
#include <deque>
#include <functional>

#include "core/runtime/core_lock.h"
#include "core/runtime/surroundings.h"
#include "core/runtime/timers.h"

namespace troupe::worker {

class ServiceQueue {
 public:
  ServiceQueue(StateMutex& mutex, Clock& clock, ServiceThread& thread)
      : mutex_(mutex), clock_(clock), thread_(thread) {}

  /// Runs `action` at `when` on the service thread, under the lock.
  Timers::Id add_timer(exec::Deadline when, std::function<void()> action);
  void cancel_timer(Timers::Id id) { timers_.cancel(id); }
  /// Runs `callback` on the service thread, without the lock.
  void run_later(std::function<void()> callback);
  exec::Deadline next_timer() const { return timers_.next(); }
  void clear();

  /// By the service thread, lock not held: timers that have expired, callbacks. When the next timer is due.
  exec::Deadline run_due();

 private:
  StateMutex& mutex_;
  Clock& clock_;
  ServiceThread& thread_;
  Timers timers_;
  std::deque<std::function<void()>> callbacks_;
};

}  // namespace troupe::worker
