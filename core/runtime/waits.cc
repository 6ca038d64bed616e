#include "core/runtime/waits.h"


namespace troupe::worker {

namespace {
/// Waits shorter than this keep the task's CPUs: giving them back costs two messages.
constexpr auto kShortWait = std::chrono::microseconds(200);
}  // namespace

WaitScope::WaitScope(Runtime& runtime, exec::Waiter& waiter)
    : runtime_(runtime), waiter_(waiter), context_(current_context()) {
  if (!context_) return;
  CoreLock lock(runtime_);
  context_->waiting = &waiter_;
}

WaitScope::~WaitScope() {
  if (!context_) return;
  CoreLock lock(runtime_);
  context_->waiting = nullptr;
  if (blocked_) runtime_.task_waits().task_blocked(*context_, false);
}

void WaitScope::check() {
  // A driver's own code goes on after the shutdown has begun: it may wait for what is there.
  const bool drivers_own = context_ && context_->is_driver && context_->runtime == &runtime_;
  if (runtime_.shutting_down() && !drivers_own) runtime_.shutdown_reason()->raise();
  if (context_ && context_->interrupt) std::exchange(context_->interrupt, nullptr)->raise();
}

bool WaitScope::wait(exec::Deadline deadline) {
  if (context_ && context_->is_task && !blocked_) {
    runtime_.task_waits().task_waits();
    if (waiter_.wait(std::min(deadline, exec::deadline_after(kShortWait)))) return true;
    if (exec::Deadline::clock::now() >= deadline) return false;
    CoreLock lock(runtime_);
    blocked_ = true;
    runtime_.task_waits().task_blocked(*context_, true);
  }
  return waiter_.wait(deadline);
}

void interrupt(CallContext& context, ErrorPtr error) {
  if (!context.cancelled) return interrupt_anew(context, std::move(error));
  if (context.waiting) context.waiting->notify();  // what it waits for may have changed with this
}

void interrupt_anew(CallContext& context, ErrorPtr error) {
  context.cancelled = true;
  context.interrupt = std::move(error);
  if (context.waiting) context.waiting->notify();
}

}  // namespace troupe::worker
