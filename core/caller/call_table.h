// CallTable: all open calls of this process, and what tasks and actor calls share: making, encoding, answering them.
//
// Thread rule: lock held.
#pragma once
#include <deque>
#include <map>

#include "core/runtime/call_budget.h"
#include "core/caller/calls.h"
#include "core/owner/owner.h"

namespace troupe::worker {

/// Under which lease a task is sent; none: an actor call.
struct CallLease {
  std::uint64_t id = 0;
  bool shared = false;
  const std::vector<int>* gpu_ids = nullptr;
};

class CallTable {
 public:
  CallTable(Runtime& runtime, Owner& owner) : runtime_(runtime), owner_(owner) {}

  CallBudget& budget() { return budget_; }

  /// A new call with its result entries (one handle each in `returns`, unless null).
  PendingCall* make(detail::OutgoingCall call, CallKind kind, detail::ObjectPtr* returns);
  PendingCall* find(std::uint64_t id) { return calls_.find(id); }
  /// Counts the dependencies that are not there yet and asks for them; the error of one that failed, if any.
  ErrorPtr resolve(PendingCall& call);
  /// InvalidArgumentError when the call's frame would be larger than a message may be; null else. Arguments are there.
  ErrorPtr check_size(const PendingCall& call);
  /// Writes and sends the call frame. Sets number and target.
  void send(PendingCall& call, ProcessId target, CallLease lease = {});
  /// Gives the call its results and forgets it.
  void succeed(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source);
  void fail(PendingCall& call, const ErrorPtr& error);
  /// Gives the error to those who wait, but keeps the call until its reply comes.
  void fail_results(PendingCall& call, const ErrorPtr& error);
  void forget(PendingCall& call);
  /// Removes the call from the entries that it waits for.
  void unlink_dependencies(PendingCall& call);

  ErrorContext context_of(const PendingCall& call) const;
  std::string name_of(const PendingCall& call) const;
  /// "the task 'name'"
  std::string described(const PendingCall& call) const;
  std::size_t open() const { return calls_.live(); }
  template <class F> void for_each(F&& f) { calls_.for_each(f); }

  struct Finished { std::string task_id, name, state, actor_id, error; int attempt = 0; };
  const std::deque<Finished>& finished() const { return finished_; }

 private:
  enum class End : std::uint8_t { kFinished, kFailed };
  void note_finished(PendingCall& call, End end, const std::string& error);

  Runtime& runtime_;
  Owner& owner_;
  Slab<PendingCall> calls_;
  CallBudget budget_;
  std::deque<Finished> finished_;  // up to kFinishedMax, for list_tasks; see note_finished
};

inline constexpr std::size_t kFinishedMax = 1000;
std::string task_id_text(ProcessId submitter, std::uint64_t call_id);

}  // namespace troupe::worker
