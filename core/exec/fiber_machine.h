// FiberMachine: what a FiberThread is made of. Two classes keep the promises of fibers.h, FB-1 to FB-4, and the same
// test runs on either:
//
//   BoostFibers   (boost_fibers.h)   a fiber is a stack of its own on the one thread: all builds but those
//   ThreadFibers  (thread_fibers.h)  a fiber is a thread, one of which runs at a time: sanitizers, which take one
//                                    stack for another where Boost.Context switches them
//
// Thread rule: that of FiberThread. current() is of the running thread.
#pragma once
#include <functional>
#include <memory>

#include "core/exec/fibers.h"

namespace troupe::exec {

class FiberMachine {
 public:
  virtual ~FiberMachine() = default;

  virtual void post(std::function<void()> work) = 0;
  virtual void run() = 0;
  virtual bool idle() const noexcept = 0;
  virtual void stop() = 0;
  /// For the running fiber, which is of this machine; both.
  virtual std::unique_ptr<FiberWait> make_wait() = 0;
  virtual void yield() = 0;

  /// Whose fiber runs on this thread; null: none's.
  static FiberMachine*& current() noexcept { return current_; }

 protected:
  /// A fiber in STANDBY keeps its stack (FB-3).
  static constexpr std::size_t kStandbyMax = 64;

 private:
  static inline thread_local FiberMachine* current_ = nullptr;
};

/// The machine of this build.
std::unique_ptr<FiberMachine> make_fiber_machine(ThreadBlocker& blocker, const FiberThread::Options& options);

}  // namespace troupe::exec
