// WaitScope: what surrounds the waits of user code for values, memory, actors, groups and time: they can be cancelled,
// and give the task's CPUs back when they take long. A question to the head or a daemon (Requests::call: kv, state,
// forming a group) has a deadline of its own instead.
//
// Thread rule: one thread or fiber. check() wants the lock held; wait() must not hold it.
#pragma once
#include "core/exec/waiter.h"
#include "core/runtime/context.h"
#include "core/runtime/runtime.h"

namespace troupe::worker {

class WaitScope {
 public:
  WaitScope(Runtime& runtime, exec::Waiter& waiter);
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

  /// Throws what interrupts the caller, if anything does. Lock held.
  void check();
  /// Waits for the waiter; false at the deadline. May return early and true for no reason: check, look, wait again.
  bool wait(exec::Deadline deadline);

 private:
  Runtime& runtime_;
  exec::Waiter& waiter_;
  CallContext* context_;
  bool blocked_ = false;
};

/// Interrupts a running context: its wait throws `error`. One that was interrupted before only looks again. Lock held.
void interrupt(CallContext& context, ErrorPtr error);
/// The same of one that may have been interrupted before and have gone on: its actor is killed. Lock held.
void interrupt_anew(CallContext& context, ErrorPtr error);

}  // namespace troupe::worker
