// Leases: the lease queue (scheduler/lease_queue.h) on the daemon's loop: what it decides is carried out, and it is
// woken at its deadlines.
//
// Thread rule: the loop's thread.
//
// Invariants
//   NDL-1  After every event that was given to queue() the caller calls apply(); it returns when no effect is left.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/node/base/loop.h"
#include "core/node/base/messenger.h"
#include "scheduler/lease_queue.h"

namespace troupe::node {

class Leases {
 public:
  /// What the queue's decisions need of other parts.
  struct Actions {
    std::function<void(const sched::NeedWorkers&)> need_workers;
    std::function<void(const sched::EndWorker&)> end_worker;
    std::function<void(const sched::ActorAdmitted&)> actor_admitted;
    std::function<void(const sched::ActorNotAdmitted&)> actor_not_admitted;
    std::function<void(const sched::Warn&)> warn;
    std::function<void()> applied;  ///< everything was carried out
  };
  Leases(Loop& loop, Messenger& messenger, sched::LeaseQueueOptions options)
      : loop_(loop), messenger_(messenger), queue_(std::move(options)) {}
  void set_actions(Actions actions) { actions_ = std::move(actions); }

  sched::LeaseQueue& queue() { return queue_; }
  const sched::LeaseQueue& queue() const { return queue_; }
  void apply();

 private:
  void perform(const sched::Granted& effect);
  void perform(const sched::Refused& effect);
  void perform(const sched::Forward& effect);
  void perform(const sched::CountAtOrigin& effect);
  void perform(const sched::NeedWorkers& effect) { actions_.need_workers(effect); }
  void perform(const sched::EndWorker& effect) { actions_.end_worker(effect); }
  void perform(const sched::ActorAdmitted& effect) { actions_.actor_admitted(effect); }
  void perform(const sched::ActorNotAdmitted& effect) { actions_.actor_not_admitted(effect); }
  void perform(const sched::Warn& effect) { actions_.warn(effect); }
  void set_timer();

  Loop& loop_;
  Messenger& messenger_;
  sched::LeaseQueue queue_;
  Actions actions_;
  std::optional<Loop::TimerId> timer_;
};

}  // namespace troupe::node
