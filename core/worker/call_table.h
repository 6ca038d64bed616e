// CallTable: all open calls of this process, and what tasks and actor calls share: making, encoding, answering them.
//
// Thread rule: lock held.
#pragma once
#include <deque>
#include <map>

#include "core/worker/call_budget.h"
#include "core/worker/calls.h"
#include "core/worker/transit.h"

namespace troupe::worker {

class CallTable {
 public:
  explicit CallTable(Core& core) : core_(core) {}

  CallBudget& budget() { return budget_; }

  /// A new call with its result entries (one handle each in `returns`, unless null).
  PendingCall* make(detail::OutgoingCall call, CallKind kind, detail::ObjectPtr* returns);
  PendingCall* find(std::uint64_t id) { return calls_.find(id); }
  /// Counts the dependencies that are not there yet and asks for them; the error of one that failed, if any.
  ErrorPtr resolve(PendingCall& call);
  /// Writes and sends the call frame. Sets number and target.
  void send(PendingCall& call, ProcessId target);
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
  std::size_t open() const { return calls_.live(); }
  template <class F> void for_each(F&& f) { calls_.for_each(f); }

  struct Finished { std::string task_id, name, state, actor_id, error; int attempt = 0; };
  const std::deque<Finished>& finished() const { return finished_; }

 private:
  void note_finished(PendingCall& call, const char* state, const std::string& error);

  Core& core_;
  Slab<PendingCall> calls_;
  CallBudget budget_;
  std::deque<Finished> finished_;  // the last kFinishedMax, for list_tasks
};

inline constexpr std::size_t kFinishedMax = 1000;
std::string task_id_text(ProcessId submitter, std::uint64_t call_id);

}  // namespace troupe::worker
