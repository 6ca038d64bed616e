// TaskSubmitter: the life of a task from submit to its results: waits for arguments and a lease (lease_pool.h), is
// tried again after a crash or when its options say so, ends by a reply, by cancel, or at its deadline.
//
// Invariants
//   TS-3  A task that had not begun when its worker died costs no retry. When a whole node is lost nobody knows what
//         had begun: each task that had been sent there counts as begun.
//   TS-5  A task's timeout runs here, from its first sending, over all attempts. At its end the results fail; a worker
//         that has the task is told to interrupt it, and killed when it does not answer within the grace.
//   TS-6  The user's predicate on errors is asked without the lock, on the service thread (CL-1).
//   TS-9  Only who has a task gives it back unbegun: a word that comes late, of one that had it before, is none.
// Thread rule: lock held.
#pragma once
#include <string>
#include <vector>

#include "core/caller/call_table.h"
#include "core/caller/lease_pool.h"
#include "core/runtime/key_table.h"

namespace troupe::worker {

class TaskSubmitter {
 public:
  TaskSubmitter(Runtime& runtime, Owner& owner, CallTable& calls);

  void submit(detail::OutgoingCall outgoing, const TaskOptions* options, detail::ObjectPtr* returns,
              StreamState* stream);
  void arguments_ready(PendingCall& call);
  void cancel(PendingCall& call, const CancelOptions& options, ErrorPtr error = nullptr);

  void on_reply(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source);
  /// Their worker gave them back unbegun.
  void on_recalled(const std::vector<PendingCall*>& calls);
  void process_died(const wire::ProcessDied& died, const net::BegunCalls& begun);
  void node_died(std::uint32_t node, const ErrorPtr& error);
  LeasePool& leases() { return leases_; }
  /// Forgets the results of keyed tasks, when the process is taken apart.
  void clear() { keyed_.clear(); }

 private:
  void failed(PendingCall& call, const ErrorPtr& error);
  void crashed(PendingCall& call, const ErrorPtr& error, bool out_of_memory);
  bool retry(PendingCall& call, std::int32_t& budget);
  ErrorPtr crash_error(const PendingCall& call, const wire::ProcessDied& died) const;
  void lease_lost(const LeasePool::Lost& lost, const wire::ProcessDied& died, const net::BegunCalls& begun);
  /// What no worker has begun waits again, in the order in which it was sent; what was cancelled is over.
  void put_back(std::vector<PendingCall*> unbegun);
  void start_deadline(PendingCall& call);
  void kill_after_grace(PendingCall& call);
  void remember_keyed(const std::string& key, std::vector<detail::ObjectPtr> results);
  void forget_keyed();

  Runtime& runtime_;
  Owner& owner_;
  CallTable& calls_;
  LeasePool leases_;
  KeyTable<std::vector<detail::ObjectPtr>> keyed_;  // results of tasks with an idempotency key
  bool keyed_timer_ = false;
};

}  // namespace troupe::worker
