// Fibers: many methods in progress on one thread. One FiberThread an executor thread of an actor with max_concurrency >
// 1, concurrency groups, or of the light actors.
//
// Work is run inline on the *dispatcher* fiber, the one that holds the dispatch role. When a method suspends, its fiber
// first hands the role to a standby fiber (made when there is none), so that a call that never waits costs no switch at
// all:
//
//   STANDBY --role handed--> DISPATCHER --method suspends--> BLOCKED --notified--> finishes its method --> STANDBY
//                                |  ^                                                                        |
//                                v  | work arrives                                   role is free: ----------+
//                               IDLE (the thread blocks in the endpoint when no fiber is ready)
//
// Invariants
//   FB-1  At most one fiber of a thread holds the role; work items begin in the order in which they were posted.
//   FB-2  A fiber never moves to another thread.
//   FB-3  Stacks are mmap'd with a guard area (guarded_stack.h); a fiber in STANDBY keeps its stack, at most
//         kStandbyMax of them. All stacks of a process take at most a part of the mappings that the system allows it
//         (vm.max_map_count).
//   FB-4  A method that suspends when no fiber can be made is no failure: what is posted waits until a method ends,
//         whose fiber takes the role.
//
// A FiberThread is one of two machines (fiber_machine.h): BoostFibers, or, where sanitizers could not follow a switch
// of stacks, ThreadFibers. The build says which (sources.cmake).
//
// Thread rule: post from anywhere; everything else on the thread itself.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

#include "core/exec/waiter.h"

namespace troupe::exec {

/// How one fiber waits; see Waiter.
class FiberWait {
 public:
  virtual ~FiberWait() = default;
  virtual void notify() noexcept = 0;
  virtual bool wait(Deadline deadline) = 0;
};

/// A FiberWait when the caller runs on a fiber of a FiberThread, else null.
std::unique_ptr<FiberWait> make_fiber_wait();
bool on_fiber() noexcept;
/// Lets other ready fibers of this thread run; without fibers the thread's time slice ends.
void yield_now();

class FiberMachine;

class FiberThread {
 public:
  struct Options {
    std::size_t stack_size = 1 << 20;
    std::size_t fibers_max = 65536;   ///< blocked methods at once; above it the thread takes no new work (FB-3, FB-4)
  };
  FiberThread(ThreadBlocker& blocker, Options options);
  ~FiberThread();

  /// Adds work. Any thread.
  void post(std::function<void()> work);
  /// Runs until stop() and until no fiber is left in a method. Called once, by the thread that this object is for.
  void run();
  /// Does its thread wait for work? Any thread.
  bool idle() const noexcept;
  /// Ends run() when the posted work is done. Any thread.
  void stop();

 private:
  std::unique_ptr<FiberMachine> machine_;
};

/// What belongs to a fiber although the C++ runtime keeps it by thread: exceptions in flight and errno. Made before a
/// switch, it takes them away, so that whoever runs next starts without; gone after it, it brings them back.
class FiberGlobals {
 public:
  FiberGlobals() noexcept;
  ~FiberGlobals();
  FiberGlobals(const FiberGlobals&) = delete;
  FiberGlobals& operator=(const FiberGlobals&) = delete;

 private:
  void* caught_;
  unsigned int uncaught_;
  int errno_;
};

/// The place where per-call state that belongs to a fiber is kept over switches: the current execution context.
void*& fiber_local() noexcept;

}  // namespace troupe::exec
