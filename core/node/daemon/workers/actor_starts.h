// ActorStarts: the head says which actor to start on this node; resources and a process are found for it, and its
// construction is handed over.
//
//   kStartActor --> waits for resources --admitted--> waits for a process --ready--> kActorPlaced, kConstructActor
//        `-- no room in time (kInfeasible), no image, no process --> kStartActorFailed: elsewhere, or again, unless the
//            job's processes cannot be started at all
//
// Thread rule: the loop's thread.
//
// Invariants
//   AS-1  Each kStartActor ends in kActorPlaced or kStartActorFailed, or its job ends.
//   AS-2  What an actor holds of the node's resources is given back once: at its end, or with its process.
//   AS-3  A job that is not known here is asked for where the head says that it is known (StartActor.image_at).
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/node/base/messenger.h"
#include "core/node/base/process_table.h"
#include "core/node/daemon/workers/actor_hosts.h"
#include "core/node/daemon/base/jobs.h"
#include "core/node/daemon/workers/leases.h"
#include "core/node/daemon/workers/workers.h"
#include "core/node/logs/log_pump.h"

namespace troupe::node {

class ActorStarts {
 public:
  struct Parts {
    Loop& loop;
    ProcessTable& table;
    Messenger& messenger;
    Jobs& jobs;
    Leases& leases;
    Workers& workers;
    LogPumps& logs;
  };
  ActorStarts(Parts parts, std::string node_id) : parts_(parts), node_id_(std::move(node_id)) {}

  void start(wire::StartActor message);
  void admitted(const ActorKey& key, const std::vector<int>& gpu_ids);
  void not_admitted(const ActorKey& key, const std::string& reason);
  /// The process that was started for an actor is ready.
  void process_ready(NodeProcess& process);
  /// It did not start, or ended before the construction was handed over. True when an actor waited for it.
  bool process_failed(NodeProcess& process, const ErrorRecord& error, bool retry_elsewhere);
  /// No light host of this job is starting any more: places the light actors that waited.
  void hosts_settled(JobId job);
  /// From a hosting process, on its way to the head: the actor's resources come back, and its process may end.
  void exited(ProcessId from, const wire::ActorExited& exited);
  void process_died(const NodeProcess& gone);
  /// The head gave the actor up before it was placed: a start that waits is dropped. The process that was to construct
  /// it, or null.
  NodeProcess* dropped(ActorId actor);
  void job_ended(JobId job, const std::set<ActorId>& kept);

  /// How many starts the head has asked for.
  std::uint64_t seen() const { return seen_; }

 private:
  struct Start {
    wire::StartActor message;
    std::vector<int> gpu_ids;
    bool admitted = false;
  };
  void place(const ActorKey& key);
  void place_light(const ActorKey& key, Job& job);
  void construct_in(NodeProcess& process, const ActorKey& key);
  void no_process(const ActorKey& key, JobId job);
  void failed(const ActorKey& key, ErrorRecord error, bool retry_elsewhere);
  void give_back(const ActorKey& key);

  Parts parts_;
  const std::string node_id_;
  std::map<ActorKey, Start> starts_;
  ActorHosts hosts_;
  std::uint64_t seen_ = 0;
};

}  // namespace troupe::node
