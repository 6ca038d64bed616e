// What a running program can ask about itself, and the ways to pause.
#pragma once
#include <string>
#include <vector>

#include <troupe/duration.h>
#include <troupe/options.h>

namespace troupe {

struct RuntimeContext {
  std::string job_id, node_id, worker_id, task_id, actor_id, task_name;
  int pid = 0;
  int attempt = 0;             ///< 0 at first; for an actor the number of its restarts
  std::vector<int> gpu_ids;
  Resources resources;         ///< what the task or actor was given
  std::string name_space;
  bool is_driver = false;

  /// Has the task or call that runs on this thread or fiber been cancelled? In a driver: was it told to end?
  bool cancelled() const;
};

/// The context of the calling thread or fiber. Throws InvalidArgumentError outside of run.
RuntimeContext runtime_context();

/// Suspends the fiber, or in a task or driver the thread. As in get and wait, a task that sleeps for more than a moment
/// gives its CPUs to others meanwhile and goes on at once when it wakes: as many tasks as slept may then run beside
/// those that were started. Code that is to keep its CPUs sleeps by std::this_thread. Throws CancelledError when
/// cancelled.
void sleep_for(Duration duration);
/// Lets other fibers run. Throws CancelledError when cancelled.
void yield();

}  // namespace troupe
