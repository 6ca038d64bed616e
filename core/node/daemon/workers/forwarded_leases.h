// ForwardedLeases: what other daemons pass on to this one: requests for leases (kForwardLease), which wait for their
// job's image where this node does not know it yet.
//
//   kForwardLease --the job is known, or its image comes, or cannot be had--> the lease queue, which refuses the last
//        `-- the requester has died --> dropped; its job is over here --> given back, after kGiveBackPause
//
// Thread rule: the loop's thread.
//
// Invariants
//   FWL-1  No request of a process that is known to be dead, or of a job that is over (NJ-2), comes into the queue from
//          here: the queue has heard of that before, and nobody would take the leases back.
//   FWL-2  No request of a living process is dropped: what does not come into the queue is given back.
#pragma once
#include <cstdint>
#include <functional>

#include "core/node/base/process_table.h"
#include "core/node/daemon/base/jobs.h"
#include "core/node/daemon/workers/leases.h"

namespace troupe::node {

inline constexpr Duration kGiveBackPause = std::chrono::milliseconds(100);

class ForwardedLeases {
 public:
  struct Parts {
    Loop& loop;
    ProcessTable& table;
    Messenger& messenger;
    Jobs& jobs;
    Leases& leases;
  };
  /// `is_dead`: was that node declared dead?
  ForwardedLeases(Parts parts, std::function<bool(std::uint32_t node)> is_dead)
      : parts_(parts), is_dead_(std::move(is_dead)) {}

  void wanted(const wire::LeaseWanted& wanted);

 private:
  void give_back(const wire::LeaseWanted& wanted);
  bool of_the_dead(const wire::LeaseWanted& wanted) const;

  Parts parts_;
  const std::function<bool(std::uint32_t)> is_dead_;
};

}  // namespace troupe::node
