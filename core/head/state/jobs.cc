#include "core/head/state/jobs.h"

#include <algorithm>

#include "core/head/state/unique_text.h"

namespace troupe::head {

const Job& Jobs::add(const wire::RegisterJob& request, Random& random) {
  if (const Job* known = of_driver(request.driver)) return *known;
  Job job;
  job.id = ++last_;
  job.driver = request.driver;
  job.driver_pid = request.driver_pid;
  job.registry_digest = request.registry_digest;
  job.name_space = request.name_space.empty() ? "anonymous-" + unique_text(random) : request.name_space;
  return jobs_.emplace(job.id, std::move(job)).first->second;
}

bool Jobs::end(JobId id, bool failed) {
  auto at = jobs_.find(id);
  if (at == jobs_.end() || at->second.state != "RUNNING") return false;
  at->second.state = failed ? "FAILED" : "SUCCEEDED";
  if (++ended_ > kEndedJobsKept) {
    auto oldest =
        std::find_if(jobs_.begin(), jobs_.end(), [](const auto& entry) { return entry.second.state != "RUNNING"; });
    jobs_.erase(oldest);
    --ended_;
  }
  return true;
}

const Job* Jobs::find(JobId id) const {
  auto at = jobs_.find(id);
  return at == jobs_.end() ? nullptr : &at->second;
}

bool Jobs::running(JobId id) const {
  const Job* job = find(id);
  return job && job->state == "RUNNING";
}

const Job* Jobs::of_driver(ProcessId driver) const {
  for (const auto& [id, job] : jobs_) {
    if (job.driver == driver && job.state == "RUNNING") return &job;
  }
  return nullptr;
}

std::vector<JobId> Jobs::with_driver_on(std::uint32_t node) const {
  std::vector<JobId> ids;
  for (const auto& [id, job] : jobs_) {
    if (job.driver.node == node && job.state == "RUNNING") ids.push_back(id);
  }
  return ids;
}

}  // namespace troupe::head
