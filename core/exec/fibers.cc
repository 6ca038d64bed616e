#include "core/exec/fibers.h"

#include <cxxabi.h>
#include <sched.h>

#include <cerrno>
#include <utility>

#include "core/exec/fiber_machine.h"

namespace troupe::exec {

namespace {
/// caughtExceptions and uncaughtExceptions of the C++ runtime, as its binary interface lays them out.
struct CxaGlobals { void* caught; unsigned int uncaught; };
CxaGlobals& cxa_globals() noexcept { return *reinterpret_cast<CxaGlobals*>(abi::__cxa_get_globals()); }

thread_local void* local_value = nullptr;
}  // namespace

std::unique_ptr<FiberWait> make_fiber_wait() {
  FiberMachine* machine = FiberMachine::current();
  return machine ? machine->make_wait() : nullptr;
}

bool on_fiber() noexcept { return FiberMachine::current() != nullptr; }

void yield_now() {
  if (FiberMachine* machine = FiberMachine::current()) machine->yield();
  else ::sched_yield();
}

FiberGlobals::FiberGlobals() noexcept
    : caught_(cxa_globals().caught), uncaught_(cxa_globals().uncaught), errno_(errno) {
  cxa_globals() = {nullptr, 0};
}
FiberGlobals::~FiberGlobals() {
  cxa_globals() = {caught_, uncaught_};
  errno = errno_;
}

void*& fiber_local() noexcept { return local_value; }

FiberThread::FiberThread(ThreadBlocker& blocker, Options options) : machine_(make_fiber_machine(blocker, options)) {}
FiberThread::~FiberThread() = default;
void FiberThread::post(std::function<void()> work) { machine_->post(std::move(work)); }
void FiberThread::run() { machine_->run(); }
bool FiberThread::idle() const noexcept { return machine_->idle(); }
void FiberThread::stop() { machine_->stop(); }

}  // namespace troupe::exec
