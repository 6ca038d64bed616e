#include "core/runtime/context.h"

#include <atomic>

#include "core/exec/fibers.h"

namespace troupe::worker {

namespace {
std::atomic<Runtime*> process_runtime{nullptr};
thread_local Runtime* thread_runtime = nullptr;
std::atomic<const CallContext*> driver{nullptr};
}  // namespace

std::string name_of_context(const CallContext& context) {
  return !context.name.empty() || !context.function ? context.name : detail::function_name(*context.function);
}

CallContext* current_context() noexcept { return static_cast<CallContext*>(exec::fiber_local()); }
void set_current_context(CallContext* context) noexcept { exec::fiber_local() = context; }

std::uint64_t thread_caller() noexcept {
  static std::atomic<std::uint64_t> last{0};
  static thread_local const std::uint64_t mine = ++last << 20 | 3;
  return mine;
}

Runtime* current_runtime() noexcept {
  if (CallContext* context = current_context()) return context->runtime;
  if (thread_runtime) return thread_runtime;
  return process_runtime.load(std::memory_order_acquire);
}

const CallContext* driver_context() noexcept { return driver.load(std::memory_order_acquire); }
void set_driver_context(const CallContext* context) noexcept { driver.store(context, std::memory_order_release); }

void set_process_runtime(Runtime* runtime) noexcept { process_runtime.store(runtime, std::memory_order_release); }
void set_thread_runtime(Runtime* runtime) noexcept { thread_runtime = runtime; }

}  // namespace troupe::worker
