// Launchers and forks: how workers come to be, the small stock of idle ones, and hosts of light actors.
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/log.h"
#include "core/node/daemon.h"
#include "core/node/session.h"
#include "core/node/spawn.h"
#include "core/node/strays.h"

namespace troupe::node {
namespace {

constexpr int kLauncherFailuresMax = 3;
constexpr Duration kIdleKept = std::chrono::seconds(5), kImageWait = std::chrono::seconds(5);

int stock_of(const sched::LeaseQueue& leases) {
  return std::clamp(static_cast<int>(leases.account().total().cpu / sched::kUnit), 1, kStockMax);
}

}  // namespace

Daemon::Job* Daemon::job_of(JobId id) {
  auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second;
}

// ----------------------------------------------------------------------------------------------------------------- jobs

void Daemon::with_job(JobId id, ProcessId who_knows, std::function<void(Job*)> then) {
  if (Job* job = job_of(id)) return then(job);
  std::vector<std::function<void(Job*)>>& waits = job_waits_[id];
  waits.push_back(std::move(then));
  if (waits.size() > 1) return;
  mail_->request(daemon_of(who_knows.node), wire::Method::kJobImage, wire::JobImageRequest{id}, kImageWait, [this, id](Result<Mail::Bytes> bytes) {
    Result<wire::JobImageReply> reply = bytes.ok() ? wire::decode_message<wire::JobImageReply>(*bytes) : Result<wire::JobImageReply>(bytes.error_ptr());
    Job* job = nullptr;
    if (reply.ok()) {
      job = &jobs_[id];
      job->id = id;
      job->driver = reply->driver;
      job->name_space = reply->name_space;
      job->registry_digest = reply->registry_digest;
      job->image = reply->image;
      job->executable.reset(::open(reply->image.executable.c_str(), O_RDONLY | O_CLOEXEC));
    } else {
      write_log(LogLevel::kWarn, "the image of job {} is not to be had: {}", id, reply.error().message());
    }
    auto waiting = job_waits_.extract(id);
    if (!waiting) return;
    for (auto& wait : waiting.mapped()) wait(job);
    apply_effects();
  });
}

// ------------------------------------------------------------------------------------------------------------- launchers

Daemon::Launcher* Daemon::launcher_of(Job& job) {
  if (auto it = launchers_.find(job.launcher); it != launchers_.end()) return &it->second;
  if (!job.executable || job.launcher_failures >= kLauncherFailuresMax) return nullptr;
  Result<std::pair<UniqueFd, UniqueFd>> sockets = boot_socket_pair();
  if (!sockets.ok()) return nullptr;
  const std::uint32_t id = next_launcher_++;
  Launcher launcher;
  launcher.id = id;
  launcher.job = job.id;
  if (local_) local_->start_launcher(std::move(sockets->second));
  else if (!start_launcher(job, launcher, sockets->second)) return nullptr;
  launcher.channel = std::make_unique<BootChannel>(std::move(sockets->first));
  loop_->watch(launcher.channel->fd(), EPOLLIN, [this, id](std::uint32_t events) { on_launcher_channel(id, events); });
  job.launcher = id;
  return &(launchers_[id] = std::move(launcher));
}

bool Daemon::start_launcher(Job& job, Launcher& launcher, const UniqueFd& socket) {
  launcher.log_file = config_.session_dir + "/logs/launcher-" + std::to_string(table_->node()) + "-" + std::to_string(launcher.id) + ".log";
  const UniqueFd log(::open(launcher.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));

  SpawnOptions options;
  options.executable = job.executable.get();
  options.argv = job.image.argv;
  options.environment = job.image.environment;
  std::erase_if(options.environment, [](const std::string& e) { return e.starts_with("TROUPE_INTERNAL_"); });
  options.environment.push_back(std::string(kRoleVariable) + "=launcher");
  options.environment.push_back(std::string(kMarkVariable) + "=" + mark_of(session_name_, config_.node_name, job.id, 0));
  options.working_dir = job.image.working_dir;
  options.out = options.err = log.get();
  options.fds = {{socket.get(), kRoleFd}};
  Result<int> pid = spawn(options);
  if (!pid.ok()) {
    write_log(LogLevel::kError, "starting a launcher of job {}: {}", job.id, pid.error().message());
    job.launcher_failures = kLauncherFailuresMax;
    return false;
  }
  launcher.pid = *pid;
  return true;
}

void Daemon::on_launcher_channel(std::uint32_t id, std::uint32_t events) {
  auto it = launchers_.find(id);
  if (it == launchers_.end()) return;
  if (events & EPOLLOUT) {
    it->second.channel->flush();
    if (!it->second.channel->wants_write()) loop_->rearm(it->second.channel->fd(), EPOLLIN);
  }
  if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
  for (;;) {
    it = launchers_.find(id);
    if (it == launchers_.end()) return;
    Result<Received> received = it->second.channel->receive();
    if (received.ok() && received->state == Received::State::kNothing) return;
    if (!received.ok() || received->state == Received::State::kClosed) return launcher_gone(id);
    on_launcher_packet(it->second, received->packet);
  }
}

void Daemon::on_launcher_packet(Launcher& launcher, const BootPacket& packet) {
  switch (packet.kind) {
    case wire::BootKind::kLauncherReady: {
      Result<wire::LauncherReady> ready = wire::decode_message<wire::LauncherReady>(packet.payload);
      launcher.ready = ready.ok();
      Job* job = job_of(launcher.job);
      if (!ready.ok() || !job || ready->registry_digest == job->registry_digest) break;
      job->launcher_problem = job->image.executable + " on node " + node_id_ + " has other registered functions (digest " + ready->registry_digest.substr(0, 16) +
                              ") than the driver (digest " + job->registry_digest.substr(0, 16) + "): the file was changed, or is of another build; start the driver anew";
      write_log(LogLevel::kError, "job {}: {}", job->id, job->launcher_problem);
      job->launcher_failures = kLauncherFailuresMax;
      break;
    }
    case wire::BootKind::kForked:
      if (Result<wire::Forked> forked = wire::decode_message<wire::Forked>(packet.payload); forked.ok()) on_forked(*forked);
      break;
    case wire::BootKind::kExited:
      if (Result<wire::Exited> exited = wire::decode_message<wire::Exited>(packet.payload); exited.ok()) {
        if (NodeProcess* process = table_->find({table_->node(), exited->serial})) process_exited(*process, exited->wait_status);
        else local_ended(*exited);
      }
      break;
    default: break;
  }
}

void Daemon::launcher_gone(std::uint32_t id) {
  auto node = launchers_.extract(id);
  Launcher& launcher = node.mapped();
  loop_->forget(launcher.channel->fd());
  if (launcher.pid > 0) ::kill(launcher.pid, SIGKILL);
  Job* job = job_of(launcher.job);
  if (job && job->launcher == id) job->launcher = 0;
  if (job && !job->ended) {
    write_log(LogLevel::kWarn, "the launcher of job {} ended:{}", job->id, file_tail(launcher.log_file, 5));
    job->launcher_failures = launcher.ready ? 0 : job->launcher_failures + 1;
  }
  // Forked ones die with it (LA-2): no lease goes to them from now on; their ends come by SIGCHLD. Those not forked yet never come.
  std::vector<ProcessId> lost;
  for (auto& [serial, process] : table_->all()) {
    if (process->launcher != id) continue;
    if (process->pid == 0) lost.push_back(process->id);
    else process_closing(*process);
  }
  for (ProcessId process : lost) fork_failed(process, "the launcher ended before it had forked" + file_tail(launcher.log_file, 5), false);
  apply_effects();
  forget_job_if_over(launcher.job);
}

void Daemon::forget_job_if_over(JobId id) {
  Job* job = job_of(id);
  if (!job || !job->ended || job->launcher != 0 || job->executable || table_->count(id) != 0) return;
  jobs_.erase(id);
  ::malloc_trim(0);  // what the job's peak took goes back: this process lives long
}

// ----------------------------------------------------------------------------------------------------------------- forks

NodeProcess* Daemon::fork_worker(Job& job, const sched::WorkerKind& kind) {
  Launcher* launcher = launcher_of(job);
  if (!launcher) return nullptr;
  Result<std::pair<UniqueFd, UniqueFd>> sockets = boot_socket_pair();
  if (!sockets.ok()) return nullptr;
  std::vector<UniqueFd> fds, pipes;
  fds.push_back(std::move(sockets->second));
  for (int stream = 0; !local_ && stream < 2; ++stream) {  // what a local worker writes is what the driver writes
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return nullptr;
    pipes.emplace_back(ends[0]);
    fds.emplace_back(ends[1]);
  }

  NodeProcess& process = table_->add(wire::Role::kWorker, job.id);
  process.kind = kind;
  process.launcher = launcher->id;
  process.channel = std::make_unique<BootChannel>(std::move(sockets->first));
  watch_channel(process);
  if (!pipes.empty()) logs_->start(process.id, std::move(pipes[0]), std::move(pipes[1]));
  launcher->channel->send_message(wire::BootKind::kFork, wire::ForkRequest{process.id.serial, kind.env_vars, kind.working_dir, kind.gpu_ids}, std::move(fds));
  if (launcher->channel->wants_write()) loop_->rearm(launcher->channel->fd(), EPOLLIN | EPOLLOUT);
  return &process;
}

void Daemon::on_forked(const wire::Forked& forked) {
  NodeProcess* process = table_->find({table_->node(), forked.serial});
  if (!process) {
    if (forked.pid > 0 && !local_) ::kill(forked.pid, SIGKILL);
    return;
  }
  if (!forked.error.empty()) return fork_failed(process->id, forked.error, true);
  process->pid = forked.pid;
  logs_->set_prefix(process->id, "(worker pid=" + std::to_string(forked.pid) + ", node=" + node_id_ + ")");
  if (process->killed_by_us) strike(*process);
  if (local_) return;
  process->pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, forked.pid, 0)));
  if (process->pidfd) watch_channel(*process);
}

void Daemon::fork_failed(ProcessId id, const std::string& error, bool environment) {
  NodeProcess* process = table_->find(id);
  if (!process) return;
  ErrorRecord record = make_record(environment ? ErrorCode::kRuntimeEnv : ErrorCode::kWorkerCrashed, "a worker could not be started: " + error);
  if (process->actor) {
    const ActorKey key = *process->actor;
    process->actor.reset();
    start_failed(key, record, !environment);
  } else if (process->light_host) {
    if (Job* job = job_of(process->job)) answer_light_hosts(*job);
  } else {
    Job* job = job_of(process->job);
    if (job && process->kind.plain() && job->stock_starting > 0) --job->stock_starting;  // nobody may wait for what will not come
    const bool hopeless = environment || !job || job->launcher_failures >= kLauncherFailuresMax;
    if (process->state != NodeProcess::State::kAlive)
      leases_->worker_failed(process->kind, hopeless ? std::optional<ErrorRecord>(record) : std::nullopt, loop_->now());
  }
  process->expected = true;
  process->reason = "did not start: " + error;
  if (process->pid > 0) kill_process(*process, {DeathCause::kCrashed, process->reason});
  else finish_death(id);
  apply_effects();
}

void Daemon::worker_is_ready(NodeProcess& process) {
  if (Job* job = job_of(process.job)) {
    job->launcher_failures = 0;
    if (process.light_host) {
      answer_light_hosts(*job);
    } else if (!process.actor) {
      if (process.kind.plain() && job->stock_starting > 0) --job->stock_starting;
      leases_->worker_ready(process.id, process.pid, process.kind, loop_->now());
    }
  }
  if (process.actor) construct_in(process, *process.actor);
  apply_effects();
}

void Daemon::need_workers(const sched::NeedWorkers& need) {
  Job* job = job_of(need.kind.job);
  int missing = need.count;
  if (job && need.kind.plain()) {
    const int claimed = std::min(missing, job->stock_starting);  // on their way already
    job->stock_starting -= claimed;
    missing -= claimed;
  }
  for (; missing > 0; --missing) {
    if (job && fork_worker(*job, need.kind)) continue;
    ErrorRecord error = make_record(ErrorCode::kRuntimeEnv, job ? !job->launcher_problem.empty() ? job->launcher_problem : "the program's launcher does not start; see logs/ in the session folder"
                                                                : "the program of job " + std::to_string(need.kind.job) + " is not known on this node");
    leases_->worker_failed(need.kind, std::move(error), loop_->now());
  }
}

void Daemon::refill_stock(Job& job) {
  if (job.ended) return;
  const sched::WorkerKind plain = sched::worker_kind(job.id, {});
  int missing = stock_of(*leases_) - static_cast<int>(leases_->idle_count(plain)) - job.stock_starting;
  for (; missing > 0 && fork_worker(job, plain); --missing) ++job.stock_starting;
}

void Daemon::trim_idle() {
  for (ProcessId id : leases_->surplus(static_cast<std::size_t>(stock_of(*leases_)), loop_->now() - kIdleKept)) {
    leases_->take_worker(id);
    if (NodeProcess* process = table_->find_alive(id)) {
      process->expected = true;
      process->reason = "retired";
      process->cause = DeathCause::kFinished;
      mail_->notice(id, wire::Method::kProcessRetire, wire::Empty{});
    }
  }
  loop_->after(kIdleKept, [this] { trim_idle(); });
}

// ----------------------------------------------------------------------------------------------------------- light hosts

void Daemon::light_hosts(const net::FrameHeader& request, const wire::LightHostRequest& wanted) {
  with_job(wanted.job, request.source, [this, request](Job* job) {
    if (!job || job->ended) return mail_->fail(request, make_record(ErrorCode::kNotFound, "the job has ended, or is not known here"));
    int hosts = 0;
    for (auto& [serial, process] : table_->all()) hosts += process->job == job->id && process->light_host && process->state != NodeProcess::State::kDying;
    const int wish = std::clamp(static_cast<int>(leases_->account().total().cpu / sched::kUnit), 1, kLightHostsMax);
    const sched::WorkerKind plain = sched::worker_kind(job->id, {});
    for (; hosts < wish; ++hosts) {
      std::optional<ProcessId> idle = leases_->take_worker(plain);
      NodeProcess* process = idle ? table_->find_alive(*idle) : fork_worker(*job, plain);
      if (!process) break;
      process->light_host = true;
    }
    job->light_waiting.emplace_back(request, 0);
    answer_light_hosts(*job);
  });
}

void Daemon::answer_light_hosts(Job& job) {
  wire::LightHostReply reply;
  bool starting = false;
  for (auto& [serial, process] : table_->all()) {
    if (process->job != job.id || !process->light_host) continue;
    if (process->state == NodeProcess::State::kAlive) reply.hosts.push_back(process->id);
    starting |= process->state == NodeProcess::State::kStarting && !process->expected;
  }
  if (starting) return;
  for (const auto& [request, unused] : std::exchange(job.light_waiting, {})) {
    if (reply.hosts.empty()) mail_->fail(request, make_record(ErrorCode::kRuntimeEnv, "no process for light actors could be started"));
    else mail_->respond(request, reply);
  }
  std::vector<ActorKey> placeable;
  for (const auto& [key, start] : starts_)
    if (start.message.spec.isolation == Isolation::kLight && start.message.spec.job == job.id && start.admitted) placeable.push_back(key);
  for (const ActorKey& key : placeable) place_actor(key);
}

}  // namespace troupe::node
