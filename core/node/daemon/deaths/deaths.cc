#include "core/node/daemon/deaths/deaths.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <fstream>

#include "core/base/log.h"

namespace troupe::node {
namespace {

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

Deaths::Deaths(Parts parts, WorkerHome home, std::string node_id, Events events)
    : parts_(parts),
      home_(home),
      node_id_(std::move(node_id)),
      events_(std::move(events)),
      oom_kills_(&oom_kill_count) {}

void Deaths::finish(ProcessId id) {
  NodeProcess* process = parts_.table.find(id);
  if (!process) return;
  process->state = NodeProcess::State::kDying;
  const bool may_write = may_still_write(*process);
  if (process->role == wire::Role::kWorker && process->pid > 0) {
    if (home_ == WorkerHome::kThreads) {
      if (may_write) events_.left_behind(1);
    } else {
      ::kill(-process->pid, SIGKILL);  // the rest of its process group
      parts_.strays.add(id.serial);
    }
  }
  const bool for_actor = events_.before(*process);
  const wire::ProcessDied death = describe(*process);
  parts_.endpoint.drain_and_close(id, parts_.handler);
  events_.drained(*process, death);
  if (process->channel) process->channel->close();
  if (process->pidfd) parts_.loop.forget(process->pidfd.get());
  const std::unique_ptr<NodeProcess> gone = parts_.table.remove(id);
  parts_.table.remember(death);
  write_log(LogLevel::kInfo, "process {} (pid {}) is dead: {}", to_string(id), death.pid, death.reason);

  parts_.store.client_closing(id);
  std::set<ProcessId> peers;
  for (ProcessId peer : gone->paired)
    if (NodeProcess* other = parts_.table.find_alive(peer)) {
      other->paired.erase(id);
      peers.insert(peer);
      parts_.endpoint.ring_always(peer);  // the dead one may have died between publishing and ringing
    }
  events_.lost(id);
  tell_everyone(death);
  for (ProcessId forgotten : acks_.peer_died(id)) forget(forgotten);
  const bool nobody_drains = peers.empty();
  if (may_write && gone->pidfd) wait_for_end(id, std::move(gone->pidfd));
  if (acks_.died(id, std::move(peers), may_write)) forget(id);
  if (!nobody_drains)
    parts_.loop.after(kAckWait, [this, id] {
      if (acks_.waited_enough(id)) forget(id);
    });
  events_.after(*gone, death, for_actor);
}

/// Declared dead without a proof of its end: one on threads whose end was not reported, or a process that the kernel
/// still holds.
bool Deaths::may_still_write(const NodeProcess& process) const {
  if (process.role != wire::Role::kWorker || process.pid <= 0 || process.wait_status) return false;
  return home_ == WorkerHome::kThreads || (process.pidfd && !has_ended(process.pidfd));
}

void Deaths::wait_for_end(ProcessId dead, UniqueFd pidfd) {
  write_log(LogLevel::kWarn, "process {} was killed and has not ended yet: its memory is kept until it does",
            to_string(dead));
  const int fd = pidfd.get();
  still_ending_[dead] = std::move(pidfd);
  parts_.loop.watch(fd, EPOLLIN, [this, dead, fd](std::uint32_t) {
    parts_.loop.forget(fd);
    still_ending_.erase(dead);
    ended_late(dead);
  });
}

wire::ProcessDied Deaths::describe(NodeProcess& process) {
  wire::ProcessDied death;
  death.process = process.id;
  death.role = process.role;
  death.job = process.job;
  death.pid = process.pid;
  death.wait_status = process.wait_status.value_or(-1);
  death.node_id = node_id_;
  death.log_tail = parts_.logs.finish(process.id);
  const auto now = std::chrono::steady_clock::now();
  oom_kills_.look(now);
  const bool by_sigkill =
      process.wait_status && WIFSIGNALED(*process.wait_status) && WTERMSIG(*process.wait_status) == SIGKILL;
  death.out_of_memory = by_sigkill && !process.killed_by_us && oom_kills_.claim(now);
  death.expected = process.expected;
  death.cause = process.expected      ? process.cause
                : death.out_of_memory ? DeathCause::kOutOfMemory
                                      : DeathCause::kCrashed;
  death.reason = process.reason;
  if (!process.expected || process.reason.empty()) {
    const std::string how = describe_wait_status(death.wait_status);
    if (death.out_of_memory) death.reason = "killed by the kernel for lack of memory (" + how + ")";
    else death.reason = process.reason.empty() ? how : how + " (" + process.reason + ")";
  }
  process.calls.begun(parts_.endpoint.begun_calls(process.id));
  death.begun = process.calls.begun_up_to();
  death.begun_beyond = process.calls.begun_beyond();
  if (process.actor) {
    death.actor = process.actor->first;
    death.actor_restarts = process.actor->second;
  }
  return death;
}

void Deaths::tell_processes(wire::Method method, const Messenger::Bytes& bytes) {
  for (auto& [serial, process] : parts_.table.all())
    if (process->state == NodeProcess::State::kAlive) parts_.messenger.send_notice(process->id, method, bytes);
}

void Deaths::tell_everyone(const wire::ProcessDied& death) {
  const Messenger::Bytes bytes = wire::encode_message(death);
  tell_processes(wire::Method::kProcessDied, bytes);
  for (std::uint32_t node : events_.linked())
    parts_.messenger.send_notice(daemon_of(node), wire::Method::kProcessDied, bytes);
  parts_.messenger.send_notice(kHead, wire::Method::kProcessDied, bytes);
}

void Deaths::acked(ProcessId dead, ProcessId by) {
  if (acks_.acked(dead, by)) forget(dead);
}

void Deaths::ended_late(ProcessId dead) {
  if (acks_.ended(dead)) forget(dead);
}

void Deaths::forget(ProcessId dead) { parts_.store.client_died(dead); }

bool Deaths::on_remote(const wire::ProcessDied& death) {
  if (death.process.node == parts_.table.node() || parts_.table.death(death.process)) return false;
  parts_.table.remember(death);
  tell_processes(wire::Method::kProcessDied, wire::encode_message(death));
  parts_.store.holder_gone(death.process);
  events_.lost(death.process);
  return true;
}

}  // namespace troupe::node
