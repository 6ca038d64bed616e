// Waiter: how a thread or a fiber of this process waits until something happens. Every wait of user code, from get to
// sync.h, is a Waiter::wait; this is the one function in which a task, a call or a fiber is suspended.
//
// A thread blocks in its process's endpoint, where it serves the process's rings meanwhile; a fiber is switched out and
// its thread goes on with other fibers. Around the switch the exception state of the C++ runtime and errno are kept:
// two fibers that wait inside `catch` would otherwise rethrow each other's exceptions.
//
// Invariants
//   WT-1  A notify before wait is not lost: wait then returns at once.
//   WT-2  After wait returned false (deadline) the waiter may be waited on again; notify may still arrive.
// Thread rule: made, waited on and destroyed by one thread or fiber; notify from anywhere, while the waiter lives
// (whoever notifies holds a lock under which the waiter is unlinked before it dies).
#pragma once
#include <chrono>
#include <memory>

#include "core/net/endpoint/endpoint.h"

namespace troupe::exec {

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();
/// now + timeout, saturated.
Deadline deadline_after(std::chrono::nanoseconds timeout);

/// What a blocked thread does: serve the rings. Implemented by the runtime of the process.
class ThreadBlocker {
 public:
  virtual ~ThreadBlocker() = default;
  virtual net::Endpoint& endpoint() = 0;
  virtual net::Handler& handler() = 0;
};

class FiberWait;  // the fiber's side, in fibers.cc

class Waiter {
 public:
  explicit Waiter(ThreadBlocker& blocker);
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  void notify() noexcept;
  /// True when notified (the notification is used up), false when the deadline passed.
  bool wait(Deadline deadline);

 private:
  ThreadBlocker& blocker_;
  net::Parker parker_;                 // thread mode
  std::unique_ptr<FiberWait> fiber_;   // fiber mode
};

}  // namespace troupe::exec
