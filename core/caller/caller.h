// Caller: the submitting side of a process: tasks, actor calls and streams on their way, until their results are here.
//
//   submit --> TaskSubmitter | ActorClient --> CallTable::send --> frames
//   create, find --> ActorCreation | ActorLookup --> ActorClients, which has an ActorClient for each actor
//   kReply, kStreamItem, kRecalled --> Caller finds the call --> the part that it is of
//
// Invariants
//   CAL-1  Calls whose last argument was settled go on in that order, one after the other: a call that fails, which
//          settles the arguments of further ones, does not go on to them itself. However long a chain of dependent
//          calls is, its end takes no more of the stack.
//
// Thread rule: lock held.
#pragma once
#include <deque>
#include <vector>

#include "core/caller/actor_clients.h"
#include "core/caller/actor_creation.h"
#include "core/caller/actor_lookup.h"
#include "core/caller/call_table.h"
#include "core/caller/task_submitter.h"
#include "core/owner/calling_side.h"
#include "core/owner/owner.h"

namespace troupe::worker {

class Caller final : public CallingSide {
 public:
  Caller(Runtime& runtime, Owner& owner);

  Owner& owner() { return owner_; }
  CallTable& calls() { return calls_; }
  TaskSubmitter& tasks() { return tasks_; }
  ActorClients& actors() { return actors_; }
  ActorLookup& lookup() { return lookup_; }
  ActorCreation& creation() { return creation_; }
  UntakenArguments& untaken() { return untaken_; }

  void cancel(PendingCall& call, const CancelOptions& options);
  /// Cancels the call that makes this object, here or at its owner.
  void cancel_object(ObjectEntry& entry, const CancelOptions& options);
  /// Cancels what this run of a task or call here has submitted.
  void cancel_children(std::uint64_t run);

  // ---- incoming frames
  void on_reply(const net::FrameHeader& header, ByteView payload);
  void on_stream_item(const net::FrameHeader& header, ByteView payload);
  void on_recalled(ProcessId source, ByteView payload);
  void on_cancel_object(ProcessId source, std::uint64_t flags, ByteView payload);

  /// `begun`: which of our calls the process had begun.
  void process_died(const wire::ProcessDied& died, const net::BegunCalls& begun);
  void node_died(std::uint32_t node, const ErrorPtr& error);
  /// Every open call ends with `why`; its reply is still awaited.
  void begin_shutdown(const ErrorPtr& why);
  /// Lets go of everything, when the process is taken apart.
  void clear(const ErrorPtr& why);

  // ---- CallingSide
  void dependency_ready(PendingCall& call) override;
  void result_unwanted(PendingCall& call, ObjectEntry& entry) override;
  detail::HandlePtr handle(const wire::HandleDesc& desc, std::uint64_t arrival, bool& wait) override;
  const wire::HandleDesc& describe(const detail::HandlePtr& handle) override;

 private:
  std::vector<std::uint64_t> open_calls();
  void arguments_ready(PendingCall& call);

  Runtime& runtime_;
  Owner& owner_;
  CallTable calls_;
  TaskSubmitter tasks_;
  UntakenArguments untaken_;  // empty when this ends: it may hold handles, which the clients below count
  ActorClients actors_;
  ActorLookup lookup_;
  ActorCreation creation_;
  std::deque<std::uint64_t> ready_;  // CAL-1: calls whose arguments are there; they count one as unresolved till then
  bool going_on_ = false;            // somebody further up the stack takes them from there
};

}  // namespace troupe::worker
