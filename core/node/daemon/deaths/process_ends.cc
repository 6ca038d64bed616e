#include "core/node/daemon/deaths/process_ends.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

namespace troupe::node {
namespace {
constexpr Duration kStatusWait = std::chrono::milliseconds(200), kCloseWait = std::chrono::milliseconds(500);
constexpr Duration kReportWait = std::chrono::seconds(5);
}

bool has_ended(const UniqueFd& pidfd) {
  pollfd poll{pidfd.get(), POLLIN, 0};
  return ::poll(&poll, 1, 0) > 0;
}

void ProcessEnds::kill(NodeProcess& process, const EndReason& why) {
  if (process.killed_by_us) return;
  process.killed_by_us = true;
  process.expected = true;
  leases_.take_worker(process.id);  // DA-4
  process.cause = why.cause;
  if (process.reason.empty() || why.cause != DeathCause::kCrashed) process.reason = why.reason;
  if (process.pid > 0) send_kill(process);  // else as soon as it is forked
}

void ProcessEnds::send_kill(NodeProcess& process) {
  if (home_ == WorkerHome::kThreads) {
    ::shutdown(process.channel->fd(), SHUT_RDWR);
    return;
  }
  if (process.pid <= 0) return;
  if (process.role == wire::Role::kWorker) ::kill(-process.pid, SIGKILL);
  ::kill(process.pid, SIGKILL);
}

void ProcessEnds::closing(NodeProcess& process) {
  if (process.state == NodeProcess::State::kDying) return;
  const bool was_starting = process.state == NodeProcess::State::kStarting;
  process.state = NodeProcess::State::kDying;
  if (was_starting && process.role == wire::Role::kWorker && !process.expected && !process.killed_by_us)
    process.reason = "it ended before it was ready";
  const ProcessId id = process.id;
  leases_.take_worker(id);  // DA-4: an idle one is not leased any more
  if (process.role != wire::Role::kWorker) {
    loop_.after(Duration::zero(), [this, id] { dead_(id); });
    return;
  }
  // Its wait status comes by the launcher, or by SIGCHLD. One that closed its socket and lives on is killed.
  loop_.after(kStatusWait, [this, id] {
    NodeProcess* dying = table_.find(id);
    if (!dying) return;
    send_kill(*dying);
    loop_.after(kCloseWait, [this, id] {
      const NodeProcess* silent = table_.find(id);
      const bool on_the_way = silent && silent->pidfd && has_ended(silent->pidfd);  // its launcher is slow
      loop_.after(on_the_way ? kReportWait : Duration::zero(), [this, id] { dead_(id); });
    });
  });
}

void ProcessEnds::exited(NodeProcess& process, int wait_status) {
  process.wait_status = wait_status;
  process.state = NodeProcess::State::kDying;
  dead_(process.id);
}

}  // namespace troupe::node
