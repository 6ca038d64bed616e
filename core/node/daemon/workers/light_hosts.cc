#include "core/node/daemon/workers/light_hosts.h"

#include <algorithm>

namespace troupe::node {

LightHosts::LightHosts(ProcessTable& table, Messenger& messenger, Jobs& jobs, Workers& workers, double cpus,
                       std::function<void(JobId)> settled)
    : table_(table), messenger_(messenger), jobs_(jobs), workers_(workers),
      hosts_max_(std::clamp(static_cast<int>(cpus), 1, kLightHostsMax)), settled_(std::move(settled)) {}

void LightHosts::request(const net::FrameHeader& request, const wire::LightHostRequest& wanted) {
  jobs_.with(wanted.job, request.source, [this, request](Job* job) {
    if (!job || job->ended)
      return messenger_.fail(request, make_record(ErrorCode::kNotFound, "the job has ended, or is not known here"));
    int hosts = 0;
    for (auto& [serial, process] : table_.all())
      hosts += process->job == job->id && process->light_host && process->state != NodeProcess::State::kDying;
    const sched::WorkerKind plain = sched::worker_kind(job->id, {});
    for (; hosts < hosts_max_; ++hosts) {
      NodeProcess* process = workers_.find_or_fork(*job, plain).process;
      if (!process) break;
      process->light_host = true;
    }
    waiting_[job->id].push_back(request);
    changed(job->id);
  });
}

void LightHosts::changed(JobId job) {
  wire::LightHostReply reply;
  for (auto& [serial, process] : table_.all()) {
    if (process->job != job || !process->light_host) continue;
    if (process->state == NodeProcess::State::kStarting && !process->expected) return;
    if (process->state == NodeProcess::State::kAlive) reply.hosts.push_back(process->id);
  }
  if (auto waiting = waiting_.extract(job))
    for (const net::FrameHeader& request : waiting.mapped()) {
      if (!reply.hosts.empty()) messenger_.respond(request, reply);
      else
        messenger_.fail(request, make_record(ErrorCode::kRuntimeEnv, "no process for light actors could be started"));
    }
  settled_(job);
}

void LightHosts::job_ended(JobId job) {
  auto waiting = waiting_.extract(job);
  if (!waiting) return;
  for (const net::FrameHeader& request : waiting.mapped())
    messenger_.fail(request, make_record(ErrorCode::kNotFound, "the job has ended"));
}

}  // namespace troupe::node
