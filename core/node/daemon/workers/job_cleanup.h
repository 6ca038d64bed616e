// JobCleanup: what of a job ends on this node when the job does, and when the job is forgotten here.
//
//   running --kJobEnded: all but its kept actors is killed--> ended --last process and launcher gone--> forgotten
//
// Thread rule: the loop's thread.
//
// Invariants
//   JC-1  After end() only processes that host a kept actor are left of the job, and the launcher when there are such.
//   JC-2  After an end() that keeps nothing no request of the job is in the lease queue, known here or not, and the job
//         comes to this node no more (NJ-2).
#pragma once
#include <set>
#include <string>

#include "core/node/base/messenger.h"
#include "core/node/base/process_table.h"
#include "core/node/daemon/workers/actor_starts.h"
#include "core/node/daemon/base/jobs.h"
#include "core/node/daemon/workers/launchers.h"
#include "core/node/daemon/workers/leases.h"
#include "core/node/daemon/workers/light_hosts.h"
#include "core/node/daemon/deaths/process_ends.h"
#include "core/node/daemon/workers/workers.h"

namespace troupe::node {

class JobCleanup {
 public:
  struct Parts {
    Loop& loop;
    ProcessTable& table;
    Messenger& messenger;
    Jobs& jobs;
    Leases& leases;
    Launchers& launchers;
    Workers& workers;
    LightHosts& light_hosts;
    ActorStarts& starts;
    ProcessEnds& ends;
  };
  /// Who decides what is kept when a driver has gone.
  enum class Decider { kHead, kNobody };  ///< kNobody: an embedded cluster, which ends with its driver
  JobCleanup(Parts parts, std::string session_name, std::string node_name, Decider decider)
      : parts_(parts), session_name_(std::move(session_name)), node_name_(std::move(node_name)), decider_(decider) {}

  void end(const wire::JobEnded& ended);
  /// Tells the head how the driver ended: before it hears that it is dead, which alone would be a failure.
  void driver_drained(const NodeProcess& driver, const std::string& reason);
  void driver_died(JobId id);
  void forget_if_over(JobId id);

 private:
  void end_unknown(const wire::JobEnded& ended);
  std::set<std::uint32_t> kill_workers(const Job& job, const wire::JobEnded& ended);

  Parts parts_;
  const std::string session_name_, node_name_;
  const Decider decider_;
};

}  // namespace troupe::node
