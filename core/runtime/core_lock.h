// The lock of a process's runtime state, and what may be done only after it was released.
//
// All state machines of a process are guarded by this one lock, held for short sections without any waiting or user
// code. Dropping a handle inside such a section must not come back to the lock: it is noted, and done before the lock
// is let go.
//
// Invariants
//   CL-1  No user code and no wait happens under the lock.
//   CL-2  Deferred work runs on the thread that noted it, before unlock returns, in the order noted.
#pragma once
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe::worker {

class Runtime;

/// The lock itself, with what waits for its release. Thread rule: as each function says.
class StateMutex {
 public:
  void lock();
  /// Finishes what was dropped (under the lock), releases, and runs what was deferred (without it).
  void unlock();
  /// Does this thread hold it?
  bool held() const noexcept;

  /// Lock held: runs `action` when this thread lets go of the lock, without the lock.
  void defer(std::function<void()> action) { deferred_.push_back(std::move(action)); }
  /// Lock held: finish(thing) is called under the lock, before it is released.
  void finish_drop(void (*finish)(void*), void* thing) { dropped_.emplace_back(finish, thing); }
  /// Lock held, and nothing noted yet in this section: lets go of the lock for something that takes it itself. (What
  /// was noted would run when the next one lets go of it, on whatever thread: against CL-2.)
  void without(const std::function<void()>& action);

 private:
  void release();
  void retake();

  std::mutex mutex_;
  std::vector<std::pair<void (*)(void*), void*>> dropped_;
  std::vector<std::function<void()>> deferred_;
};

class CoreLock {
 public:
  explicit CoreLock(StateMutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  explicit CoreLock(Runtime& runtime);
  ~CoreLock() { mutex_.unlock(); }
  CoreLock(const CoreLock&) = delete;
  CoreLock& operator=(const CoreLock&) = delete;

 private:
  StateMutex& mutex_;
};

}  // namespace troupe::worker
