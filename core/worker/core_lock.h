// The lock of a process's runtime state, and what may be done only after it was released.
//
// All state machines of the process are guarded by this one lock, held for short sections without any waiting or user code.
// Dropping a handle inside such a section must not come back to the lock: it is noted, and done when the lock is released.
//
// Invariants
//   CL-1  No user code and no wait happens under the lock.
//   CL-2  Deferred work runs on the thread that noted it, before unlock returns, in the order noted.
#pragma once
#include <mutex>

namespace troupe::worker {

class Core;

class CoreLock {
 public:
  explicit CoreLock(Core& core);
  ~CoreLock();
  CoreLock(const CoreLock&) = delete;
  CoreLock& operator=(const CoreLock&) = delete;
  /// Does this thread hold the lock of `core`?
  static bool held(const Core& core) noexcept;

 private:
  Core& core_;
};

}  // namespace troupe::worker
