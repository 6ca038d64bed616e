// LeasePool: the leases of this process and the tasks that wait for one, by scheduling class. Asks the daemon for
// leases, keeps warm ones, pushes calls to their workers, and takes back what a worker did not begin.
//
//   queue of a class --lease granted--> pushed to its worker (at most `depth` at a time) --reply--> next
//                                          |-- recalled, or worker died before it began --> front of the queue
//
// Invariants
//   TS-1  A class never holds more leases than it has had calls waiting; an idle lease is given back after kLeaseIdle.
//   TS-2  depth is above 1 only for classes whose tasks have been measured to take less than a millisecond, whether
//         they succeeded or failed, and never for a lease of a worker that others share.
//   TS-7  A lease whose CPUs were given to others while a task of it waited gets no further task before its daemon has
//         said that it has them back (renew); when others have them it is over. What runs beyond the node's CPUs is
//         only what had waited.
//   TS-8  The same of a lease that has lasted kLeaseTerm: at the end of what was pushed to it others have their turn,
//         if anybody waits. A long queue keeps nobody out.
//   TS-4  A class that no call and no lease is of is forgotten; a lease that is granted for it later is given back at
//         once.
//   TS-10  A wish is repeated when a node dies: a lease that it granted was counted before it was sent, and may be lost
//         with it. What is granted besides is idle, and given back (TS-1).
// Thread rule: lock held.
#pragma once
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/caller/call_table.h"

namespace troupe::worker {

struct LeaseState {
  std::uint64_t id = 0;
  ProcessId worker;
  ClassState* of = nullptr;
  CallList sent;
  std::vector<int> gpu_ids;
  bool shared = false;                     // tasks that wait live in that worker too (max_suspended_workers)
  bool spent = false;                      // TS-7, TS-8: to be renewed when its last call has ended
  bool paused = false;                     // its running task waits or takes long: nothing more is pushed
  exec::Deadline idle_since = exec::kNever;
  exec::Deadline since{};                  // granted, or last renewed
};

struct ClassState {
  std::uint64_t request_id = 0;
  wire::LeaseClass lease_class;
  CallList queue;
  std::vector<std::unique_ptr<LeaseState>> leases;
  std::size_t calls = 0;                   // open calls of this class, whatever their state
  std::uint32_t announced = 0;             // how many more leases the daemon believes we want
  double run_us = -1;                      // moving average; below 0: not known yet
};

class LeasePool {
 public:
  /// `sent` is called after a call that has a timeout was sent.
  LeasePool(Runtime& runtime, CallTable& calls, std::function<void(PendingCall&)> sent)
      : runtime_(runtime), calls_(calls), sent_(std::move(sent)) {}

  /// A new call is of the class of these options; null: defaults.
  void join_class(PendingCall& call, const TaskOptions* options);
  void enqueue(PendingCall& call);
  /// Calls of one worker that are on no lease, for it has not begun them: to the front of their queues, in the order in
  /// which they had been sent.
  /// Nothing is sent before the next pump.
  void put_back(const std::vector<PendingCall*>& calls);
  /// A queued call is to be forgotten by its owner.
  void remove_queued(PendingCall& call);
  /// Sends what can be sent, and tells the daemon how many more leases are wanted.
  void pump(ClassState& of);

  void on_granted(const wire::LeaseGranted& granted);
  void on_refused(const wire::LeaseRefused& refused);
  /// A node died. (TS-10)
  void repeat_wishes();
  /// The call's worker answered: the lease has room.
  void on_replied(PendingCall& call, const ReplyHead& head);
  /// The worker gave the call back unbegun: it is on no lease now.
  void on_recalled(PendingCall& call);
  /// The call was cancelled and may run on: nothing is pushed behind it before the next reply of its lease.
  void pause(PendingCall& call);

  /// Leases of workers that died; their calls are on no lease then, and stay with whoever asked.
  struct Lost { ProcessId worker; ClassState* of; std::vector<PendingCall*> calls; };
  std::vector<Lost> take_lost(const std::function<bool(ProcessId)>& dead, bool tell_daemon);

  std::size_t classes() const { return classes_.size(); }

 private:
  ClassState& class_of(const TaskOptions* options);
  void forget_unused();
  std::uint32_t wanted_of(const ClassState& of) const;
  void announce(ClassState& of);
  void tell_wanted(ClassState& of, std::uint32_t wanted);
  std::size_t depth(const ClassState& of, const LeaseState& lease) const;
  void give_back(const LeaseState& lease);
  void give_back(std::uint64_t lease, ProcessId worker);
  void emptied(LeaseState& lease);
  void renew(LeaseState& lease);
  LeaseState* find(std::uint64_t class_id, std::uint64_t lease, ProcessId worker);
  void renewed(LeaseState& lease, std::uint64_t number);
  void check_idle();
  void start_idle_timer();

  Runtime& runtime_;
  CallTable& calls_;
  const std::function<void(PendingCall&)> sent_;
  std::unordered_map<std::uint64_t, std::unique_ptr<ClassState>> classes_;  // by request id
  std::uint64_t last_request_ = 0;
  std::size_t sweep_at_ = 64;              // so many classes: those without use are forgotten
  ClassState* default_class_ = nullptr;    // never forgotten
  ClassState* last_class_ = nullptr;
  bool idle_timer_ = false;
};

}  // namespace troupe::worker
