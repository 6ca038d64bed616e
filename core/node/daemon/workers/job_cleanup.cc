#include "core/node/daemon/workers/job_cleanup.h"

#include <malloc.h>

#include <cstdlib>

#include "core/base/log.h"
#include "core/node/launcher/strays.h"

namespace troupe::node {
namespace {
constexpr Duration kHeadSilence = std::chrono::seconds(30);  // it is started again, or thawed, sooner
}

void JobCleanup::end(const wire::JobEnded& ended) {
  if (ended.keep_actors.empty()) parts_.jobs.over(ended.job);
  else parts_.jobs.not_over(ended.job);
  Job* job = parts_.jobs.find(ended.job);
  if (!job) return end_unknown(ended);
  job->ended = true;
  // the head says it again when the last of them has ended
  job->kept = {ended.keep_actors.begin(), ended.keep_actors.end()};
  const std::set<std::uint32_t> kept = kill_workers(*job, ended);
  parts_.workers.forget_job(ended.job);  // forks of the stock were killed, too: nobody may wait for them
  parts_.starts.job_ended(ended.job, job->kept);
  std::set<ProcessId> live_on(ended.keep_processes.begin(), ended.keep_processes.end());
  for (const std::uint32_t serial : kept) live_on.insert({parts_.table.node(), serial});  // the head may not know them
  parts_.leases.queue().job_ended(ended.job, live_on, parts_.loop.now());
  const std::string prefix = mark_of_job(session_name_, node_name_, ended.job);
  const bool keep_launcher = !job->kept.empty() || !kept.empty();
  kill_where(prefix, [&](const Marked& marked) {
    const auto serial =
        static_cast<std::uint32_t>(std::strtoul(marked.mark.substr(prefix.size()).c_str(), nullptr, 16));
    return serial != 0 ? !kept.contains(serial) : !keep_launcher;
  });
  write_log(LogLevel::kInfo, "job {} ended: {}", ended.job, ended.reason);
  parts_.light_hosts.job_ended(ended.job);
  if (!keep_launcher) job->executable.reset();
  parts_.leases.apply();
  forget_if_over(ended.job);
}

/// Requests of it may have come here before its image, or although that could not be had (JC-2).
void JobCleanup::end_unknown(const wire::JobEnded& ended) {
  if (!ended.keep_actors.empty()) return;
  parts_.leases.queue().job_ended(ended.job, {}, parts_.loop.now());
  parts_.leases.apply();
}

/// The serials of those that stay.
std::set<std::uint32_t> JobCleanup::kill_workers(const Job& job, const wire::JobEnded& ended) {
  const std::set<ProcessId> keep(ended.keep_processes.begin(), ended.keep_processes.end());
  std::set<std::uint32_t> kept;
  for (auto& [serial, process] : parts_.table.all()) {
    if (process->job != job.id || process->role != wire::Role::kWorker) continue;
    const bool hosts_kept = keep.contains(process->id) || (process->actor && job.kept.contains(process->actor->first));
    if (hosts_kept) kept.insert(serial);
    else parts_.ends.kill(*process, {DeathCause::kJobEnded, "the job ended: " + ended.reason});
  }
  return kept;
}

void JobCleanup::driver_drained(const NodeProcess& driver, const std::string& reason) {
  const Job* job = parts_.jobs.find(driver.job);
  if (job)
    parts_.messenger.notice(kHead, wire::Method::kJobFinished,
                            wire::JobFinished{job->id, driver.id, job->exit_code, reason});
}

void JobCleanup::driver_died(JobId id) {
  if (!parts_.jobs.find(id)) return;
  if (decider_ == Decider::kNobody) return end({id, "its driver ended", {}, {}});
  parts_.loop.after(kHeadSilence, [this, id] {  // the head says what is kept; without it nothing is
    if (const Job* left = parts_.jobs.find(id); left && !left->ended) end({id, "its driver ended", {}, {}});
  });
}

void JobCleanup::forget_if_over(JobId id) {
  const Job* job = parts_.jobs.find(id);
  if (!job || !job->ended || parts_.launchers.running(id) || job->executable || parts_.table.count(id) != 0) return;
  parts_.jobs.forget(id);
  parts_.workers.forget_job(id);
  ::malloc_trim(0);  // what the job's peak took goes back: this process lives long
}

}  // namespace troupe::node
