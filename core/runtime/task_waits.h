// TaskWaits: who hears that the code of a call waits. The executor implements it: a task that waits gives its CPUs and
// the calls behind it back.
#pragma once

namespace troupe::worker {

struct CallContext;

class TaskWaits {
 public:
  virtual ~TaskWaits() = default;
  /// A task begins to wait. Lock not held.
  virtual void task_waits() = 0;
  /// It has waited for a while (true), or goes on after that (false). Lock held.
  virtual void task_blocked(CallContext& context, bool blocked) = 0;
};

}  // namespace troupe::worker
