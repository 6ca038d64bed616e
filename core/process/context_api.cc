// The public functions that tell a call about itself, and let it pause.
#include <troupe/context.h>
#include <unistd.h>

#include "core/caller/call_table.h"
#include "core/exec/fibers.h"
#include "core/executor/hosted_actor.h"
#include "core/process/core.h"
#include "core/runtime/context.h"
#include "core/runtime/waits.h"

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
  if (!context) context = driver_context();
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
