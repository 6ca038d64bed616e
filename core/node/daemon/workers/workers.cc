#include "core/node/daemon/workers/workers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/log.h"

namespace troupe::node {
namespace {

constexpr Duration kIdleKept = std::chrono::seconds(5), kRetireWait = std::chrono::seconds(5),
                   kRefillDelay = std::chrono::milliseconds(20);

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return make_error<Error>(std::string("a pipe for a worker's output: ") + std::strerror(errno));
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

// --------------------------------------------------------------------------------------------------------------- forks

NodeProcess* Workers::fork(Job& job, const sched::WorkerKind& kind) {
  const std::uint32_t launcher = parts_.launchers.of(job);
  if (launcher == 0) return nullptr;
  std::vector<UniqueFd> fds;
  std::array<Pipe, 2> pipes;
  Result<std::pair<UniqueFd, UniqueFd>> sockets = boot_socket_pair();
  Status status = sockets.ok() ? Status() : Status(sockets.error_ptr());
  if (home_ == WorkerHome::kProcesses)  // what a thread writes is what the driver writes
    for (Pipe& pipe : pipes) {
      if (!status.ok()) break;
      Result<Pipe> made = make_pipe();
      if (made.ok()) pipe = std::move(*made);
      else status = made.error_ptr();
    }
  if (!status.ok()) {
    write_log(LogLevel::kError, "a worker of job {} cannot be forked: {}", job.id, status.error().message());
    return nullptr;
  }
  NodeProcess& process = parts_.table.add(wire::Role::kWorker, job.id);
  process.kind = kind;
  process.launcher = launcher;
  process.channel = std::make_unique<PacketChannel>(parts_.loop, std::move(sockets->first));
  events_.forked(process);
  fds.push_back(std::move(sockets->second));
  if (home_ == WorkerHome::kProcesses) {
    for (Pipe& pipe : pipes) fds.push_back(std::move(pipe.write));
    parts_.logs.start(process.id, std::move(pipes[0].read), std::move(pipes[1].read));
  }
  parts_.launchers.fork(launcher, {process.id.serial, kind.env_vars, kind.working_dir, kind.gpu_ids}, std::move(fds));
  return &process;
}

Workers::Found Workers::find_or_fork(Job& job, const sched::WorkerKind& kind) {
  const std::optional<ProcessId> idle = parts_.leases.queue().take_worker(kind);
  if (idle) return {parts_.table.find_alive(*idle), true};
  return {fork(job, kind), false};
}

void Workers::on_forked(const wire::Forked& forked) {
  NodeProcess* process = parts_.table.find({parts_.table.node(), forked.serial});
  if (!process) {
    if (forked.pid > 0 && home_ == WorkerHome::kProcesses) ::kill(forked.pid, SIGKILL);
    return;
  }
  if (!forked.error.empty()) return failed(process->id, forked.error, true);
  process->pid = forked.pid;
  parts_.logs.set_prefix(process->id, "(worker pid=" + std::to_string(forked.pid) + ", node=" + node_id_ + ")");
  if (process->killed_by_us) parts_.ends.send_kill(*process);
  if (home_ == WorkerHome::kThreads) return;
  process->pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, forked.pid, 0)));
  events_.forked(*process);
}

void Workers::on_launcher_gone(std::uint32_t launcher, JobId job, const std::string& log_tail) {
  // Forked ones die with it (LA-2): no lease goes to them from now on; their ends come by SIGCHLD. Those not forked yet
  // never come.
  std::vector<ProcessId> never_forked;
  for (auto& [serial, process] : parts_.table.all()) {
    if (process->launcher != launcher) continue;
    if (process->pid == 0) never_forked.push_back(process->id);
    else parts_.ends.closing(*process);
  }
  for (ProcessId process : never_forked) failed(process, "the launcher ended before it had forked" + log_tail, false);
  parts_.leases.apply();
  events_.maybe_over(job);
}

void Workers::failed(ProcessId id, const std::string& error, bool environment) {
  NodeProcess* process = parts_.table.find(id);
  if (!process) return;
  const bool for_actor = process->actor || process->light_host;
  if (for_actor && parts_.launchers.given_up(process->job)) environment = true;
  const ErrorRecord record = make_record(environment ? ErrorCode::kRuntimeEnv : ErrorCode::kWorkerCrashed,
                                         "a worker could not be started: " + error);
  if (for_actor) {
    events_.actor_failed(*process, record, environment);
  } else {
    if (process->kind.plain()) stock_.failed(process->job);  // nobody may wait for what will not come
    const bool hopeless = environment || !parts_.jobs.find(process->job) || parts_.launchers.given_up(process->job);
    if (process->state != NodeProcess::State::kAlive)
      parts_.leases.queue().worker_failed(process->kind, hopeless ? std::optional<ErrorRecord>(record) : std::nullopt,
                                          parts_.loop.now());
  }
  process->expected = true;
  process->reason = "did not start: " + error;
  if (process->pid > 0) parts_.ends.kill(*process, {DeathCause::kCrashed, process->reason});
  else parts_.ends.never_was(id);
  parts_.leases.apply();
}

std::optional<ErrorRecord> Workers::hopeless(JobId job) const {
  if (!parts_.launchers.given_up(job)) return std::nullopt;
  std::string why = parts_.launchers.problem(job);
  if (why.empty()) why = "no worker can be started on node " + node_id_ + "; see logs/ in the session folder";
  return make_record(ErrorCode::kRuntimeEnv, std::move(why));
}

void Workers::ready(NodeProcess& process) {
  if (process.killed_by_us) return;  // DA-4: its word lay in the socket
  parts_.launchers.worker_ready(process.job);
  if (process.actor || process.light_host) {
    events_.actor_ready(process);
  } else if (parts_.jobs.find(process.job)) {
    if (process.kind.plain()) stock_.ready(process.job);
    parts_.leases.queue().worker_ready(process.id, process.pid, process.kind, parts_.loop.now());
  }
  parts_.leases.apply();
}

void Workers::needed(const sched::NeedWorkers& need) {
  Job* job = parts_.jobs.find(need.kind.job);
  int missing = need.count;
  if (job && need.kind.plain()) missing -= stock_.claim(job->id, missing);
  for (; missing > 0; --missing) {
    if (job && fork(*job, need.kind)) continue;
    std::string why = "the program of job " + std::to_string(need.kind.job) + " is not known on this node";
    if (job) why = parts_.launchers.problem(job->id);
    if (why.empty()) why = "no worker can be started on node " + node_id_ + "; see logs/ in the session folder";
    parts_.leases.queue().worker_failed(need.kind, make_record(ErrorCode::kRuntimeEnv, std::move(why)),
                                        parts_.loop.now());
  }
}

void Workers::died(const NodeProcess& gone, const wire::ProcessDied& death, bool for_actor) {
  const bool never_ready = !gone.doorbell && gone.role == wire::Role::kWorker && !gone.expected && !gone.actor &&
                           !gone.light_host && !for_actor;
  if (!never_ready) return;
  if (gone.kind.plain()) stock_.failed(gone.job);
  parts_.launchers.worker_failed(gone.job);
  const bool hopeless = !parts_.jobs.find(gone.job) || parts_.launchers.given_up(gone.job);
  parts_.leases.queue().worker_failed(
      gone.kind, hopeless ? std::optional<ErrorRecord>(death_error(death)) : std::nullopt, parts_.loop.now());
}

// --------------------------------------------------------------------------------------------------------------- stock

void Workers::refill(Job& job) {
  if (job.ended) return;
  const sched::WorkerKind plain = sched::worker_kind(job.id, {});
  int missing = stock_.missing(job.id, static_cast<int>(parts_.leases.queue().workers().fresh_count(plain)));
  for (; missing > 0 && fork(job, plain); --missing) stock_.begun(job.id);
}

void Workers::plan_refills() {
  for (auto& [id, job] : parts_.jobs.all()) {
    if (job.ended || refills_planned_.contains(id) || !parts_.launchers.running(id)) continue;
    const sched::WorkerKind plain = sched::worker_kind(id, {});
    if (parts_.leases.queue().workers().fresh_count(plain) > 0 || stock_.starting(id) > 0) continue;
    refills_planned_.insert(id);
    parts_.loop.after(kRefillDelay, [this, job_id = id] {
      if (refills_planned_.erase(job_id) == 0) return;
      if (Job* again = parts_.jobs.find(job_id)) refill(*again);
    });
  }
}

void Workers::retire_idle() {
  for (ProcessId id : retirement_.ask(static_cast<std::size_t>(stock_.size()), parts_.loop.now() - kIdleKept)) {
    NodeProcess* process = parts_.table.find_alive(id);
    if (!process) {
      retirement_.over(id);
      continue;
    }
    process->expected = true;
    process->reason = "retired";
    process->cause = DeathCause::kFinished;
    ask_to_retire(id);
  }
  parts_.loop.after(kIdleKept, [this] { retire_idle(); });
}

void Workers::ask_to_retire(ProcessId worker) {
  parts_.messenger.request(worker, wire::Method::kProcessRetire, wire::Empty{}, kRetireWait,
                           [this, worker](Result<Messenger::Bytes> reply) {
                             NodeProcess* kept = parts_.table.find_alive(worker);
                             if (reply.ok() || !kept || kept->killed_by_us) return retirement_.over(worker);
                             // WK-2: no lease goes to it before it has answered (RTR-1)
                             if (reply.error().code() == ErrorCode::kGetTimeout) return ask_to_retire(worker);
                             kept->expected = false;  // it has work, or others hold what it owns
                             kept->reason.clear();
                             kept->cause = DeathCause::kCrashed;
                             retirement_.refused(worker, kept->pid, kept->kind, parts_.loop.now());
                             parts_.leases.apply();
                           });
}

void Workers::forget_job(JobId job) {
  stock_.forget(job);
  refills_planned_.erase(job);
  parts_.launchers.forget_job(job);
}

}  // namespace troupe::node
