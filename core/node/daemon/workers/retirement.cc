#include "core/node/daemon/workers/retirement.h"

namespace troupe::node {

std::vector<ProcessId> Retirement::ask(std::size_t keep, TimePoint since) {
  std::vector<ProcessId> asked;
  for (ProcessId worker : queue_.workers().surplus(keep, since))
    if (queue_.take_worker(worker)) asked.push_back(worker);
  asked_.insert(asked.begin(), asked.end());
  return asked;
}

void Retirement::refused(ProcessId worker, std::int32_t pid, const sched::WorkerKind& kind, TimePoint now) {
  if (asked_.erase(worker) == 0) return;
  queue_.worker_ready(worker, pid, kind, now, sched::WorkerPast::kTasks);  // WPL-5
}

}  // namespace troupe::node
