#include "core/worker/context.h"

#include <troupe/context.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "core/exec/fibers.h"
#include "core/worker/core.h"
#include "core/worker/hosted_actor.h"
#include "core/worker/waits.h"

namespace troupe::worker {

namespace {
std::atomic<Core*> process_core{nullptr};
thread_local Core* thread_core = nullptr;
std::atomic<const CallContext*> driver_context{nullptr};
}

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

Core* current_core() noexcept {
  if (CallContext* context = current_context()) return context->core;
  if (thread_core) return thread_core;
  return process_core.load(std::memory_order_acquire);
}

Core& require_core() {
  Core* core = current_core();
  if (!core) throw InvalidArgumentError("this is possible only inside troupe::run");
  return *core;
}

void set_driver_context(const CallContext* context) noexcept { driver_context.store(context, std::memory_order_release); }

void set_process_core(Core* core) noexcept { process_core.store(core, std::memory_order_release); }
void set_thread_core(Core* core) noexcept { thread_core = core; }

Core& keep_for_good(std::unique_ptr<Core> core) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::unique_ptr<Core>>;
  std::lock_guard lock(mutex);
  kept.push_back(std::move(core));
  return *kept.back();
}

}  // namespace troupe::worker

namespace troupe {

using namespace worker;

RuntimeContext runtime_context() {
  Core& core = require_core();
  const CallContext* context = current_context();
  RuntimeContext out;
  out.job_id = std::to_string(core.welcome().job);
  out.node_id = core.welcome().node_id;
  out.worker_id = core.welcome().worker_id;
  out.pid = ::getpid();
  out.name_space = core.welcome().name_space;
  out.is_driver = core.is_driver();
  if (!context || context->is_driver) return out;
  if (context->is_task || context->actor) {
    out.task_id = context->is_task || context->call_id ? task_id_text(context->submitter, context->call_id) : "";
    out.task_name = name_of_context(*context);
    out.attempt = context->attempt;
    out.resources = context->resources;
    out.gpu_ids = context->gpu_ids;
  }
  if (context->actor) {
    out.actor_id = to_string(context->actor->id());
    out.name_space = core.welcome().name_space;
  }
  return out;
}

bool RuntimeContext::cancelled() const {
  const CallContext* context = current_context();
  if (!context) context = driver_context.load(std::memory_order_acquire);
  return context && context->cancelled.load(std::memory_order_acquire);
}

void sleep_for(Duration duration) {
  Core& core = require_core();
  exec::Waiter waiter(core);
  WaitScope scope(core, waiter);
  const exec::Deadline deadline = exec::deadline_after(duration);
  for (;;) {
    {
      CoreLock lock(core);
      scope.check();
    }
    if (exec::Deadline::clock::now() >= deadline) return;
    scope.wait(deadline);
  }
}

void yield() {
  Core& core = require_core();
  if (CallContext* context = current_context(); context && context->cancelled.load()) {
    CoreLock lock(core);
    if (context->interrupt) std::exchange(context->interrupt, nullptr)->raise();
  }
  exec::yield_now();
}

}  // namespace troupe
