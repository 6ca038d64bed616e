#include <troupe/sync.h>

#include <list>
#include <troupe/error.h>

#include "core/process/core.h"
#include "core/runtime/waits.h"

namespace troupe {

using worker::Core;
using worker::require_core;

namespace detail {

/// Threads and fibers that wait, first come first served, under a lock of its own (held for a few instructions).
class WaitQueue {
 public:
  std::mutex mutex;

  struct Waiting { exec::Waiter* waiter; bool woken = false; };

  /// Waits until woken. False: the deadline passed. `lock` holds mutex and is held again on return. Throws when
  /// cancelled; then, if it was woken meanwhile, the wake-up is passed on.
  bool wait(std::unique_lock<std::mutex>& lock, exec::Deadline deadline, bool can_be_cancelled = true) {
    Core& core = require_core();
    exec::Waiter waiter(core);
    auto me = waiting_.insert(waiting_.end(), {&waiter});
    lock.unlock();
    try {
      worker::WaitScope scope(core, waiter);
      for (bool done = false; !done;) {
        {
          worker::CoreLock core_lock(core);
          if (can_be_cancelled) scope.check();
        }
        {
          std::lock_guard again(mutex);
          done = me->woken;
        }
        if (!done && !scope.wait(deadline) && exec::Deadline::clock::now() >= deadline) break;
      }
    } catch (...) {
      lock.lock();
      const bool woken = me->woken;
      waiting_.erase(me);
      if (woken) wake_one();
      throw;
    }
    lock.lock();
    const bool woken = me->woken;
    waiting_.erase(me);
    return woken;
  }
  void wake_one() {
    for (Waiting& one : waiting_)
      if (!std::exchange(one.woken, true)) return one.waiter->notify();
  }
  void wake_all() {
    for (Waiting& one : waiting_)
      if (!std::exchange(one.woken, true)) one.waiter->notify();
  }

 private:
  std::list<Waiting> waiting_;
};

}  // namespace detail

using detail::WaitQueue;
using Lock = std::unique_lock<std::mutex>;

Mutex::Mutex() : queue_(std::make_unique<WaitQueue>()) {}
Mutex::~Mutex() = default;
void Mutex::lock() {
  Lock lock(queue_->mutex);
  while (locked_) queue_->wait(lock, exec::kNever);
  locked_ = true;
}
bool Mutex::try_lock() {
  Lock lock(queue_->mutex);
  return !std::exchange(locked_, true);
}
void Mutex::unlock() {
  Lock lock(queue_->mutex);
  locked_ = false;
  queue_->wake_one();
}

ConditionVariable::ConditionVariable() : queue_(std::make_unique<WaitQueue>()) {}
ConditionVariable::~ConditionVariable() = default;
void ConditionVariable::notify_one() {
  Lock lock(queue_->mutex);
  queue_->wake_one();
}
void ConditionVariable::notify_all() {
  Lock lock(queue_->mutex);
  queue_->wake_all();
}
std::chrono::steady_clock::time_point ConditionVariable::deadline_after(Duration timeout) {
  return exec::deadline_after(timeout);
}

void Mutex::lock_anyway() {
  Lock lock(queue_->mutex);
  while (locked_) queue_->wait(lock, exec::kNever, false);
  locked_ = true;
}

/// Locks again although the caller may be being cancelled: the caller's unique_lock must own the mutex when it unwinds.
/// What interrupts the caller meanwhile is told by its next wait.
void ConditionVariable::relock(std::unique_lock<Mutex>& lock) {
  Mutex* const mutex = lock.mutex();
  mutex->lock_anyway();
  lock.release();
  lock = std::unique_lock<Mutex>(*mutex, std::adopt_lock);
}

std::cv_status ConditionVariable::wait_until(std::unique_lock<Mutex>& lock,
                                             std::chrono::steady_clock::time_point deadline) {
  Lock own(queue_->mutex);
  lock.unlock();
  bool woken = false;
  try {
    woken = queue_->wait(own, deadline);
  } catch (...) {
    own.unlock();
    relock(lock);
    throw;
  }
  own.unlock();
  relock(lock);
  return woken ? std::cv_status::no_timeout : std::cv_status::timeout;
}
void ConditionVariable::wait(std::unique_lock<Mutex>& lock) { wait_until(lock, exec::kNever); }
std::cv_status ConditionVariable::wait_for(std::unique_lock<Mutex>& lock, Duration timeout) {
  return wait_until(lock, exec::deadline_after(timeout));
}

Semaphore::Semaphore(std::ptrdiff_t desired) : queue_(std::make_unique<WaitQueue>()), count_(desired) {
  if (desired < 0) throw InvalidArgumentError("a semaphore's count is not negative");
}
Semaphore::~Semaphore() = default;
void Semaphore::release(std::ptrdiff_t update) {
  if (update < 0) throw InvalidArgumentError("a semaphore is released by 0 or more");
  Lock lock(queue_->mutex);
  count_ += update;
  for (std::ptrdiff_t i = 0; i < update; ++i) queue_->wake_one();
}
void Semaphore::acquire() {
  Lock lock(queue_->mutex);
  while (count_ == 0) queue_->wait(lock, exec::kNever);
  --count_;
}
bool Semaphore::try_acquire() {
  Lock lock(queue_->mutex);
  if (count_ == 0) return false;
  --count_;
  return true;
}
bool Semaphore::try_acquire_for(Duration timeout) {
  const exec::Deadline deadline = exec::deadline_after(timeout);
  Lock lock(queue_->mutex);
  while (count_ == 0)
    if (!queue_->wait(lock, deadline) && count_ == 0) return false;
  --count_;
  return true;
}

Latch::Latch(std::ptrdiff_t expected) : queue_(std::make_unique<WaitQueue>()), count_(expected) {
  if (expected < 0) throw InvalidArgumentError("a latch's count is not negative");
}
Latch::~Latch() = default;
void Latch::count_down(std::ptrdiff_t n) {
  Lock lock(queue_->mutex);
  if (n < 0 || n > count_) throw InvalidArgumentError("a latch counted down below zero");
  count_ -= n;
  if (count_ == 0) queue_->wake_all();
}
bool Latch::try_wait() const {
  Lock lock(queue_->mutex);
  return count_ == 0;
}
void Latch::wait() const {
  Lock lock(queue_->mutex);
  while (count_ > 0) queue_->wait(lock, exec::kNever);
}
void Latch::arrive_and_wait(std::ptrdiff_t n) {
  count_down(n);
  wait();
}

Event::Event() : queue_(std::make_unique<WaitQueue>()) {}
Event::~Event() = default;
void Event::set() {
  Lock lock(queue_->mutex);
  set_ = true;
  queue_->wake_all();
}
void Event::reset() {
  Lock lock(queue_->mutex);
  set_ = false;
}
bool Event::is_set() const {
  Lock lock(queue_->mutex);
  return set_;
}
void Event::wait() {
  Lock lock(queue_->mutex);
  while (!set_) queue_->wait(lock, exec::kNever);
}
bool Event::wait_for(Duration timeout) {
  const exec::Deadline deadline = exec::deadline_after(timeout);
  Lock lock(queue_->mutex);
  while (!set_)
    if (!queue_->wait(lock, deadline) && !set_) return false;
  return true;
}

}  // namespace troupe
