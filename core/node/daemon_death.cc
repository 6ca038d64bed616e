// Deaths: how processes are ended, when they count as dead, and who is told in which order (DA-1, DA-2).
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

#include "core/base/log.h"
#include "core/node/daemon.h"
#include "core/node/strays.h"

namespace troupe::node {
namespace {

constexpr Duration kStatusWait = std::chrono::milliseconds(200), kCloseWait = std::chrono::milliseconds(500), kStrayDelay = std::chrono::milliseconds(10),
                   kHeadSilence = std::chrono::seconds(3);

/// Counts of the kernel's oom killer: of our memory cgroup where it can be read, else of the machine.
std::uint64_t oom_kill_count() {
  for (const char* path : {"/sys/fs/cgroup/memory.events", "/proc/vmstat"}) {
    std::ifstream file(path);
    std::string name;
    for (std::uint64_t value = 0; file >> name >> value;)
      if (name == "oom_kill") return value;
  }
  return 0;
}

}  // namespace

void Daemon::kill_process(NodeProcess& process, const EndReason& why) {
  if (process.killed_by_us) return;
  process.killed_by_us = true;
  process.expected = true;
  leases_->take_worker(process.id);  // DA-4
  process.cause = why.cause;
  if (process.reason.empty() || why.cause != DeathCause::kCrashed) process.reason = why.reason;
  if (process.pid <= 0) return;  // on_forked does it
  strike(process);
}

/// SIGKILL to it and its group. A worker that is threads of this process has a socket in its place: shut, it ends.
void Daemon::strike(NodeProcess& process) {
  if (local_) {
    ::shutdown(process.channel->fd(), SHUT_RDWR);
    return;
  }
  if (process.pid <= 0) return;
  if (process.role == wire::Role::kWorker) ::kill(-process.pid, SIGKILL);
  ::kill(process.pid, SIGKILL);
}

/// The threads of a worker are over that had to be declared dead before.
void Daemon::local_ended(const wire::Exited& exited) {
  const ProcessId id{table_->node(), exited.serial};
  auto found = left_behind_.find(id);
  if (found == left_behind_.end()) return;
  const bool forgettable = found->second;
  left_behind_.erase(found);
  if (forgettable) store_->client_died(id);
}

void Daemon::process_closing(NodeProcess& process) {
  if (process.state == NodeProcess::State::kDying) return;
  const bool was_starting = process.state == NodeProcess::State::kStarting;
  process.state = NodeProcess::State::kDying;
  if (was_starting && process.role == wire::Role::kWorker && !process.expected && !process.killed_by_us) {
    process.reason = "it ended before it was ready";
  }
  const ProcessId id = process.id;
  leases_->take_worker(id);  // an idle one is not leased any more (DA-4)
  if (process.role != wire::Role::kWorker) {  // a driver or tool that closed its socket is gone as far as we care
    loop_->after(Duration::zero(), [this, id] { finish_death(id); });
    return;
  }
  // Its wait status comes by the launcher, or by SIGCHLD. One that closed its socket and lives on is killed.
  loop_->after(kStatusWait, [this, id] {
    NodeProcess* dying = table_->find(id);
    if (!dying) return;
    strike(*dying);
    loop_->after(kCloseWait, [this, id] { finish_death(id); });
  });
}

void Daemon::process_exited(NodeProcess& process, int wait_status) {
  process.wait_status = wait_status;
  process.state = NodeProcess::State::kDying;
  finish_death(process.id);
}

wire::ProcessDied Daemon::describe_death(NodeProcess& process) {
  wire::ProcessDied death;
  death.process = process.id;
  death.role = process.role;
  death.job = process.job;
  death.pid = process.pid;
  death.wait_status = process.wait_status.value_or(-1);
  death.node_id = node_id_;
  death.log_tail = logs_->finish(process.id);
  const std::uint64_t oom_kills = oom_kill_count();
  const bool by_sigkill = process.wait_status && WIFSIGNALED(*process.wait_status) && WTERMSIG(*process.wait_status) == SIGKILL;
  death.out_of_memory = by_sigkill && !process.killed_by_us && oom_kills > oom_kills_;
  oom_kills_ = oom_kills;
  death.expected = process.expected;
  death.cause = process.expected ? process.cause : death.out_of_memory ? DeathCause::kOutOfMemory : DeathCause::kCrashed;
  death.reason = process.reason;
  if (!process.expected || process.reason.empty()) {
    const std::string how = describe_wait_status(death.wait_status);
    death.reason = death.out_of_memory ? "killed by the kernel for lack of memory (" + how + ")" : process.reason.empty() ? how : how + " (" + process.reason + ")";
  }
  process.calls.begun(endpoint_->begun(process.id));
  for (const auto& [source, token] : process.calls.last_begun()) death.begun.emplace_back(source, token);
  if (process.actor) {
    death.actor = process.actor->first;
    death.actor_restarts = process.actor->second;
  }
  return death;
}

void Daemon::finish_death(ProcessId id) {
  NodeProcess* process = table_->find(id);
  if (!process) return;
  process->state = NodeProcess::State::kDying;
  if (local_ && process->role == wire::Role::kWorker && process->pid > 0 && !process->wait_status) {
    left_behind_[id] = false;
    local_->warn_of_left_behind(1);
  }
  if (!local_ && process->role == wire::Role::kWorker && process->pid > 0) {
    ::kill(-process->pid, SIGKILL);  // the rest of its process group
    stray_serials_.insert(id.serial);
    kill_strays();
  }
  // An actor whose construction was not handed over yet: the head may place it anew.
  const bool pending_start = process->actor && starts_.contains(*process->actor);
  if (pending_start) {
    const ActorKey key = *process->actor;
    process->actor.reset();
    start_failed(key, make_record(ErrorCode::kWorkerCrashed, "its process ended before it was ready: " + describe_wait_status(process->wait_status.value_or(-1))), true);
  }
  wire::ProcessDied death = describe_death(*process);
  endpoint_->drain_and_close(id, *this);
  if (process->channel) loop_->forget(process->channel->fd());
  if (process->pidfd) loop_->forget(process->pidfd.get());
  const std::unique_ptr<NodeProcess> gone = table_->remove(id);
  table_->remember(death);
  write_log(LogLevel::kInfo, "process {} (pid {}) is dead: {}", to_string(id), death.pid, death.reason);

  store_->client_closing(id);
  std::set<ProcessId>& waiting = unacked_[id];
  for (ProcessId peer : gone->paired)
    if (NodeProcess* other = table_->find_alive(peer)) {
      other->paired.erase(id);
      waiting.insert(peer);
      endpoint_->ring_always(peer);  // the dead one may have died between publishing and ringing
    }
  mail_->process_lost(id);
  hand_overs_.process_died(id);
  spread_death(death);
  if (waiting.empty()) death_acked(id, {});
  else loop_->after(kAckWait, [this, id] { death_acked(id, {}); });

  leases_->process_died(id, loop_->now());
  if (gone->actor) leases_->actor_gone(gone->actor->first, gone->actor->second, loop_->now());
  for (auto it = light_actors_.begin(); it != light_actors_.end();) {
    if (it->second != id) {
      ++it;
      continue;
    }
    leases_->actor_gone(it->first.first, it->first.second, loop_->now());
    it = light_actors_.erase(it);
  }
  Job* job = job_of(gone->job);
  if (job && gone->light_host) answer_light_hosts(*job);
  const bool never_ready = !gone->doorbell && gone->role == wire::Role::kWorker && !gone->expected && !gone->actor && !gone->light_host && !pending_start;
  if (never_ready) {
    if (job && gone->kind.plain() && job->stock_starting > 0) --job->stock_starting;
    const bool hopeless = !job || ++job->launcher_failures >= 3;
    leases_->worker_failed(gone->kind, hopeless ? std::optional<ErrorRecord>(death_error(death)) : std::nullopt, loop_->now());
  }
  if (gone->role == wire::Role::kDriver && job) {
    mail_->notice(kHead, wire::Method::kJobFinished, wire::JobFinished{job->id, id, job->exit_code, death.reason});
    if (owns_head_ && config_.embedded) end_job({job->id, "its driver ended", {}, {}});
    else loop_->after(kHeadSilence, [this, ended = job->id] {  // the head says what is kept; without it nothing is
      if (Job* left = job_of(ended); left && !left->ended) end_job({ended, "its driver ended", {}, {}});
    });
  }
  apply_effects();
  forget_job_if_over(gone->job);
}

void Daemon::spread_death(const wire::ProcessDied& death) {
  const Mail::Bytes bytes = wire::encode_message(death);
  for (auto& [serial, process] : table_->all())
    if (process->state == NodeProcess::State::kAlive) mail_->send_notice(process->id, wire::Method::kProcessDied, bytes);
  for (std::uint32_t node : links_->linked()) mail_->send_notice(daemon_of(node), wire::Method::kProcessDied, bytes);
  mail_->send_notice(kHead, wire::Method::kProcessDied, bytes);
}

void Daemon::death_acked(ProcessId dead, ProcessId by) {
  auto it = unacked_.find(dead);
  if (it == unacked_.end()) return;
  it->second.erase(by);
  if (by != ProcessId{} && !it->second.empty()) return;
  unacked_.erase(it);
  if (auto left = left_behind_.find(dead); left != left_behind_.end()) left->second = true;  // its threads may still read and write there
  else store_->client_died(dead);
}

void Daemon::on_remote_death(const wire::ProcessDied& death) {
  if (death.process.node == table_->node() || table_->death(death.process)) return;
  table_->remember(death);
  const Mail::Bytes bytes = wire::encode_message(death);
  for (auto& [serial, process] : table_->all())
    if (process->state == NodeProcess::State::kAlive) mail_->send_notice(process->id, wire::Method::kProcessDied, bytes);
  store_->holder_gone(death.process);
  mail_->process_lost(death.process);
  leases_->process_died(death.process, loop_->now());
  apply_effects();
}

void Daemon::on_node_died(const wire::NodeDied& death) {
  if (death.node == table_->node()) return stop("the head declared this node dead: " + death.reason);  // fenced
  links_->node_dead(death.node);
  const Mail::Bytes bytes = wire::encode_message(death);
  for (auto& [serial, process] : table_->all())
    if (process->state == NodeProcess::State::kAlive) mail_->send_notice(process->id, wire::Method::kNodeDied, bytes);
  store_->node_gone(death.node);
  mail_->node_lost(death.node);
  leases_->node_died(death.node, loop_->now());
  apply_effects();
}

void Daemon::end_job(const wire::JobEnded& ended) {
  Job* job = job_of(ended.job);
  if (!job) return;
  job->ended = true;
  const std::set<ProcessId> keep(ended.keep_processes.begin(), ended.keep_processes.end());
  job->kept = {ended.keep_actors.begin(), ended.keep_actors.end()};  // the head says it again when the last of them has ended
  std::set<std::uint32_t> keep_serials;
  for (auto& [serial, process] : table_->all()) {
    if (process->job != ended.job || process->role != wire::Role::kWorker) continue;
    const bool hosts_kept = keep.contains(process->id) || (process->actor && job->kept.contains(process->actor->first));
    if (hosts_kept) keep_serials.insert(serial);
    else kill_process(*process, {DeathCause::kJobEnded, "the job ended: " + ended.reason});
  }
  for (auto it = starts_.begin(); it != starts_.end();)
    it = it->second.message.spec.job == ended.job && !job->kept.contains(it->first.first) ? starts_.erase(it) : std::next(it);
  leases_->job_ended(ended.job, loop_->now());
  const std::string prefix = mark_of_job(session_name_, config_.node_name, ended.job);
  const bool keep_launcher = !job->kept.empty() || !keep_serials.empty();
  kill_where(prefix, [&](const Marked& marked) {
    const auto serial = static_cast<std::uint32_t>(std::strtoul(marked.mark.substr(prefix.size()).c_str(), nullptr, 16));
    return serial != 0 ? !keep_serials.contains(serial) : !keep_launcher;
  });
  write_log(LogLevel::kInfo, "job {} ended: {}", ended.job, ended.reason);
  for (const auto& [request, unused] : std::exchange(job->light_waiting, {})) mail_->fail(request, make_record(ErrorCode::kNotFound, "the job has ended"));
  if (!keep_launcher) job->executable.reset();
  apply_effects();
  forget_job_if_over(ended.job);
}

void Daemon::kill_strays() {
  if (std::exchange(strays_planned_, true)) return;
  loop_->after(kStrayDelay, [this] {
    strays_planned_ = false;
    const std::set<std::uint32_t> serials = stray_serials_;
    const std::string prefix = session_name_ + "/" + config_.node_name + "/";
    const int hit = kill_where(prefix, [&](const Marked& marked) {
      const std::size_t slash = marked.mark.rfind('/');
      return serials.contains(static_cast<std::uint32_t>(std::strtoul(marked.mark.c_str() + slash + 1, nullptr, 16)));
    });
    if (hit > 0) return kill_strays();  // they may have had children
    for (std::uint32_t serial : serials) stray_serials_.erase(serial);
    if (!stray_serials_.empty()) kill_strays();
  });
}

}  // namespace troupe::node
