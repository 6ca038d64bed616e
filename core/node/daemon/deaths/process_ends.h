// ProcessEnds: how a process of this node is ended, and when it counts as dead.
//
//   kStarting, kAlive --its socket or pidfd closes, its wait status comes--> kDying --surely dead--> dead(id)
//        `--kill(): SIGKILL--^
//
// Surely dead: its wait status came; or it is a driver or tool, which is gone for us with its socket; or it was killed
// after kStatusWait without a status and kCloseWait has passed since. Where the kernel says that it has ended, its
// status is on the way and waited for longer (kReportWait): it is what tells a kill for lack of memory from a crash.
// Deaths does the rest.
//
// Thread rule: the loop's thread.
//
// Invariants
//   DA-4  No lease is granted on a worker that is known to be dying: whose socket closed, whose launcher ended, that
//         was killed.
#pragma once
#include <functional>
#include <string>

#include "core/node/base/loop.h"
#include "core/node/base/process_table.h"

namespace troupe::node {

struct EndReason {
  DeathCause cause = DeathCause::kKilled;
  std::string reason;
};

/// The kernel has closed its memory; its wait status may not have been read yet.
bool has_ended(const UniqueFd& pidfd);

/// Where the workers of a node run.
enum class WorkerHome { kProcesses, kThreads };

class ProcessEnds {
 public:
  /// `dead` is called once for each process, from the loop or from within exited().
  ProcessEnds(Loop& loop, ProcessTable& table, sched::LeaseQueue& leases, WorkerHome home,
              std::function<void(ProcessId)> dead)
      : loop_(loop), table_(table), leases_(leases), home_(home), dead_(std::move(dead)) {}

  void kill(NodeProcess& process, const EndReason& why);
  /// SIGKILL to it and its process group. A worker on threads has its socket shut down in its place: it ends by that.
  void send_kill(NodeProcess& process);
  void closing(NodeProcess& process);
  void exited(NodeProcess& process, int wait_status);
  /// One that was never forked, or did not become ready: there is no end to wait for.
  void never_was(ProcessId process) { dead_(process); }

 private:
  Loop& loop_;
  ProcessTable& table_;
  sched::LeaseQueue& leases_;
  const WorkerHome home_;
  const std::function<void(ProcessId)> dead_;
};

}  // namespace troupe::node
