// Synchronization inside one process that suspends the fiber (in a task its thread) and can be cancelled.
//
// As the standard's of the same names, but every wait throws CancelledError when the task or call is cancelled. Code
// that must block its thread (std::latch, system calls) belongs in an actor with `threads`, or in a task.
// Thread rule: all may be shared by fibers and threads of one process. They are not movable and not serializable.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>

#include <troupe/duration.h>

namespace troupe {

namespace detail { class WaitQueue; }

class Mutex {
 public:
  Mutex();
  ~Mutex();
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock();
  bool try_lock();
  void unlock();

 private:
  friend class ConditionVariable;
  void lock_anyway();
  std::unique_ptr<detail::WaitQueue> queue_;
  bool locked_ = false;  // under the queue's lock
};

class ConditionVariable {
 public:
  ConditionVariable();
  ~ConditionVariable();
  ConditionVariable(const ConditionVariable&) = delete;
  ConditionVariable& operator=(const ConditionVariable&) = delete;
  void notify_one();
  void notify_all();
  void wait(std::unique_lock<Mutex>& lock);
  template <class Pred> void wait(std::unique_lock<Mutex>& lock, Pred pred) { while (!pred()) wait(lock); }
  std::cv_status wait_for(std::unique_lock<Mutex>& lock, Duration timeout);
  template <class Pred> bool wait_for(std::unique_lock<Mutex>& lock, Duration timeout, Pred pred) {
    const auto deadline = deadline_after(timeout);
    while (!pred())
      if (wait_until(lock, deadline) == std::cv_status::timeout) return pred();
    return true;
  }

 private:
  static void relock(std::unique_lock<Mutex>& lock);
  static std::chrono::steady_clock::time_point deadline_after(Duration timeout);
  std::cv_status wait_until(std::unique_lock<Mutex>& lock, std::chrono::steady_clock::time_point deadline);
  std::unique_ptr<detail::WaitQueue> queue_;
};

class Semaphore {
 public:
  explicit Semaphore(std::ptrdiff_t desired);
  ~Semaphore();
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;
  void release(std::ptrdiff_t update = 1);
  void acquire();
  bool try_acquire();
  bool try_acquire_for(Duration timeout);

 private:
  std::unique_ptr<detail::WaitQueue> queue_;
  std::ptrdiff_t count_;
};

class Latch {
 public:
  explicit Latch(std::ptrdiff_t expected);
  ~Latch();
  Latch(const Latch&) = delete;
  Latch& operator=(const Latch&) = delete;
  void count_down(std::ptrdiff_t n = 1);
  bool try_wait() const;
  void wait() const;
  void arrive_and_wait(std::ptrdiff_t n = 1);

 private:
  std::unique_ptr<detail::WaitQueue> queue_;
  std::ptrdiff_t count_;
};

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void set();
  void reset();
  bool is_set() const;
  void wait();
  bool wait_for(Duration timeout);

 private:
  std::unique_ptr<detail::WaitQueue> queue_;
  bool set_ = false;
};

}  // namespace troupe
