// TaskSubmitter: from submit to a worker. Asks daemons for leases by scheduling class, keeps warm leases, pushes calls, and
// brings back what a worker did not begin.
//
//   queue of a class --lease granted--> pushed to its worker (at most `depth` at a time) --reply--> next
//                                          |-- recalled, or worker died before it began --> front of the queue
//
// Invariants
//   TS-1  A class never holds more leases than it has had calls waiting; an idle lease is given back after kLeaseIdle.
//   TS-2  depth is above 1 only for classes whose tasks have been measured to take less than a millisecond.
//   TS-3  A task that had not begun when its worker died costs no retry.
// Thread rule: lock held.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/worker/call_table.h"
#include "core/worker/timers.h"

namespace troupe::worker {

struct LeaseState {
  std::uint64_t id = 0;
  ProcessId worker;
  int worker_pid = 0;
  ClassState* owner = nullptr;
  CallList sent;
  bool paused = false;                     // its running task waits or takes long: nothing more is pushed
  exec::Deadline idle_since = exec::kNever;
};

struct ClassState {
  std::uint64_t request_id = 0;
  wire::LeaseClass lease_class;
  CallList queue;
  std::vector<std::unique_ptr<LeaseState>> leases;
  std::uint32_t announced = 0;             // how many more leases the daemon believes we want
  double run_us = -1;                      // moving average; below 0: not known yet
  ErrorPtr refused;
};

class TaskSubmitter {
 public:
  explicit TaskSubmitter(Core& core) : core_(core) {}

  void submit(detail::OutgoingCall outgoing, const TaskOptions* options, detail::ObjectPtr* returns, StreamState* stream);
  void arguments_ready(PendingCall& call);
  void cancel(PendingCall& call, const CancelOptions& options, ErrorPtr error = nullptr);

  void on_granted(const wire::LeaseGranted& granted);
  void on_refused(const wire::LeaseRefused& refused);
  void on_reply(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source);
  void on_recalled(PendingCall& call);
  void process_died(const wire::ProcessDied& died, std::uint64_t begun);
  void node_died(std::uint32_t node, const ErrorPtr& error);
  /// Forgets the results of keyed tasks (Core::let_go).
  void let_go() { keyed_.clear(); }

 private:
  ClassState& class_of(const TaskOptions* options);
  void enqueue(PendingCall& call, bool front);
  void pump(ClassState& of);
  void announce(ClassState& of);
  std::size_t depth(const ClassState& of) const;
  void call_left(PendingCall& call);
  void give_back(LeaseState& lease, bool dead);
  void check_idle();
  void start_idle_timer();
  void lease_lost(LeaseState& lease, const wire::ProcessDied& died, std::uint64_t begun);
  void crashed(PendingCall& call, const ErrorPtr& error, bool out_of_memory);
  bool retry(PendingCall& call, std::int32_t& budget);
  ErrorPtr crash_error(const PendingCall& call, const wire::ProcessDied& died) const;
  void kill_after_grace(PendingCall& call);

  Core& core_;
  std::vector<std::unique_ptr<ClassState>> classes_;
  ClassState* default_class_ = nullptr;
  ClassState* last_class_ = nullptr;
  bool idle_timer_ = false;
  std::unordered_map<std::string, std::vector<detail::ObjectPtr>> keyed_;  // results of tasks with an idempotency key
  std::deque<std::pair<exec::Deadline, std::string>> keyed_order_;
};

}  // namespace troupe::worker
