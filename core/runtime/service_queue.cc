#include "core/runtime/service_queue.h"

#include "core/base/log.h"

namespace troupe::worker {

Timers::Id ServiceQueue::add_timer(exec::Deadline when, std::function<void()> action) {
  auto [id, first] = timers_.add(when, std::move(action));
  if (first) thread_.wake();
  return id;
}

void ServiceQueue::run_later(std::function<void()> callback) {
  callbacks_.push_back(std::move(callback));
  thread_.wake();
}

void ServiceQueue::clear() {
  callbacks_.clear();
  timers_ = {};
}

exec::Deadline ServiceQueue::run_due() {
  for (;;) {
    std::function<void()> callback;
    {
      CoreLock lock(mutex_);
      if (std::function<void()> action = timers_.take_expired(clock_.now())) {
        action();
        continue;
      }
      if (callbacks_.empty()) return timers_.next();
      callback = std::move(callbacks_.front());
      callbacks_.pop_front();
    }
    try {
      callback();
    } catch (const std::exception& error) {
      write_log(LogLevel::kWarn, "a callback threw: {}", std::string(error.what()));
    } catch (...) {
      write_log(LogLevel::kWarn, "a callback threw something that is no std::exception");
    }
  }
}

}  // namespace troupe::worker
