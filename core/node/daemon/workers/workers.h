// Workers: how worker processes come to be and are let go: forks by the job's launcher, the stock of idle ones
// (WorkerStock), and retiring those that nobody has used for a while (Retirement).
//
//   fork() --Forked--> has a pid --Hello, welcomed--> ready() --> lease queue, actor or light host
//      `--an error, or its end, before that--> failed(): whoever waits for it is told
//
// Thread rule: the loop's thread.
//
// Invariants
//   WK-1  Each worker that the lease queue asked for ends in worker_ready or worker_failed there.
//   WK-2  A worker that was asked to retire either ends or refuses, and then is idle again. One that does not answer is
//         asked again: it may still obey the first time.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "core/node/base/loop.h"
#include "core/node/base/messenger.h"
#include "core/node/base/process_table.h"
#include "core/node/daemon/base/jobs.h"
#include "core/node/daemon/workers/launchers.h"
#include "core/node/daemon/workers/leases.h"
#include "core/node/daemon/workers/retirement.h"
#include "core/node/daemon/deaths/process_ends.h"
#include "core/node/daemon/workers/worker_stock.h"
#include "core/node/logs/log_pump.h"

namespace troupe::node {

class Workers {
 public:
  struct Events {
    std::function<void(NodeProcess&)> forked;                 ///< it is in the table, with its channel: watch that
    std::function<void(NodeProcess&)> actor_ready;            ///< it was started for an actor, or as a light host
    /// The same, but it did not start. `environment`: another node, or the next time, would fail as well.
    std::function<void(NodeProcess&, const ErrorRecord&, bool environment)> actor_failed;
    std::function<void(JobId)> maybe_over;                    ///< something of an ended job is gone
  };
  struct Parts {
    Loop& loop;
    ProcessTable& table;
    Messenger& messenger;
    Jobs& jobs;
    Leases& leases;
    Launchers& launchers;
    ProcessEnds& ends;
    LogPumps& logs;
  };
  Workers(Parts parts, double cpus, WorkerHome home, std::string node_id, Events events)
      : parts_(parts),
        stock_(cpus),
        retirement_(parts.leases.queue()),
        home_(home),
        node_id_(std::move(node_id)),
        events_(std::move(events)) {}

  /// Null: no launcher, or no descriptors.
  NodeProcess* fork(Job& job, const sched::WorkerKind& kind);
  /// An idle worker of this kind, or a new one; `idle` tells which.
  struct Found {
    NodeProcess* process = nullptr;
    bool idle = false;
  };
  Found find_or_fork(Job& job, const sched::WorkerKind& kind);
  void needed(const sched::NeedWorkers& need);
  /// Why no worker of this job will be started here any more; none: one may be.
  std::optional<ErrorRecord> hopeless(JobId job) const;
  void ready(NodeProcess& process);
  /// A worker whose Hello was refused, or that could not be forked.
  void failed(ProcessId id, const std::string& error, bool environment);
  void died(const NodeProcess& gone, const wire::ProcessDied& death, bool for_actor);

  // ---- the stock
  void refill(Job& job);
  /// Refills the stocks that are empty, in the background: those who wait for a fork of their own come first.
  void plan_refills();
  /// Asks idle workers beyond the stock to end; again every kIdleKept.
  void retire_idle();

  // ---- from launchers
  void on_forked(const wire::Forked& forked);
  void on_launcher_gone(std::uint32_t launcher, JobId job, const std::string& log_tail);

  void forget_job(JobId job);

 private:
  void ask_to_retire(ProcessId worker);

  Parts parts_;
  WorkerStock stock_;
  Retirement retirement_;
  const WorkerHome home_;
  const std::string node_id_;
  const Events events_;
  std::set<JobId> refills_planned_;
};

}  // namespace troupe::node
