#include "core/exec/waiter.h"

#include "core/exec/fibers.h"

namespace troupe::exec {

Deadline deadline_after(std::chrono::nanoseconds timeout) {
  if (timeout == std::chrono::nanoseconds::max()) return kNever;
  const Deadline now = std::chrono::steady_clock::now();
  if (timeout <= std::chrono::nanoseconds::zero()) return now;
  return kNever - now <= timeout ? kNever : now + std::chrono::duration_cast<Deadline::duration>(timeout);
}

Waiter::Waiter(ThreadBlocker& blocker) : blocker_(blocker), parker_(blocker.endpoint()), fiber_(make_fiber_wait()) {}
Waiter::~Waiter() = default;

void Waiter::notify() noexcept {
  if (fiber_) fiber_->notify();
  else parker_.notify();
}

bool Waiter::wait(Deadline deadline) {
  if (!fiber_) return blocker_.endpoint().block(parker_, deadline, blocker_.handler());
  const FiberGlobals globals;
  return fiber_->wait(deadline);
}

}  // namespace troupe::exec
