// CallContext: the task or call that runs on this thread or fiber, for runtime_context, for cancelling, and for who
// waits.
//
//   RUNNING --cancel--> INTERRUPTED --its next wait, or the one it is in, throws once--> RUNNING (may wait again)
//
// Thread rule: cancelled from any thread; waiting and interrupt under the core's lock; the rest is fixed while it runs.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/waiter.h"
#include "core/runtime/frames.h"
#include <troupe/detail/registry.h>
#include <troupe/options.h>
#include <troupe/result.h>

namespace troupe::worker {

class HostedActor;   // of core/executor
class Runtime;

struct CallContext {
  Runtime* runtime = nullptr;
  std::uint64_t run = 0;             // number of this run in the process; 0: the driver
  ProcessId submitter;
  std::uint64_t call_id = 0;
  std::uint64_t caller = 0;          // order of the calls made from here: one task, one actor, one thread of the driver
  std::string task_id, name;
  const detail::FunctionNode* function = nullptr;
  HostedActor* actor = nullptr;
  int attempt = 0;
  Resources resources;
  std::vector<int> gpu_ids;
  std::uint64_t lease = 0;           // tasks: under which they run
  bool is_task = false, is_driver = false;
  bool exit_asked = false;           // exit_actor
  bool lent = false;                 // tasks: its lease's CPUs were given away while it waited; under the lock

  std::atomic<bool> cancelled{false};
  ErrorPtr interrupt;                // what the next wait throws
  exec::Waiter* waiting = nullptr;
};

/// Its name: the one it was given, else the function's. Names cost more to make than a call: they are made when asked
/// for.
std::string name_of_context(const CallContext& context);
/// Of this thread or fiber; null outside of tasks, calls and the driver's main thread.
CallContext* current_context() noexcept;
void set_current_context(CallContext* context) noexcept;
/// Order of calls made from a driver's thread or any other thread without a context.
std::uint64_t thread_caller() noexcept;
/// The runtime of this thread, else of this process; null outside of run. A thread that is not the runtime's own
/// belongs to the process: in local mode to the driver.
Runtime* current_runtime() noexcept;
void set_process_runtime(Runtime* runtime) noexcept;
/// Of the runtime's own threads: more than one runtime may live in a process (local mode).
void set_thread_runtime(Runtime* runtime) noexcept;
/// The driver's own context, for its other threads; null outside of run. They may ask whether the driver is told to
/// end.
const CallContext* driver_context() noexcept;
void set_driver_context(const CallContext* context) noexcept;

}  // namespace troupe::worker
