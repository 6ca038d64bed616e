// ActorCalls: the calls of this process to one actor, in their order, and what becomes of them when a life of it ends.
//
//              arguments there                  place known                reply
//   WAITING -------------------> QUEUED ------------------------> SENT ----------> gone
//   (by caller)                    ^                               |
//                                  +--- next life (resend) --------+  process died: a suspect until the head's word
//
// Where the actor lives is ActorLife's; this class is told it, and holds no handle.
//
// Invariants
//   CAC-1  Calls of one caller reach one incarnation of the actor in the order of their submission; a call that waits
//          for an argument holds back the later calls of its caller, and nobody else's. (Not with out_of_order.)
//   CAC-2  A call is sent to a new incarnation only when it had not begun in the old one, or has retries left.
//   CAC-5  What is said of a call is said of all its attempts: one of which an attempt may have begun is never said not
//          to have been executed.
//   CAC-6  What a light actor that has ended had not begun is its next life's, where the head gives it one: such calls
//          stay in their place among those that were sent until the head's word.
// Thread rule: lock held. A call that fails may make later ones of this actor fail: no list is walked while calls fail.
#pragma once
#include <map>
#include <string>

#include "core/caller/call_table.h"

namespace troupe::worker {

/// What there is to tell the calls of an actor whose life has ended.
struct ActorEnd {
  ActorId actor;
  const std::string& class_name;
  const ErrorPtr& why;     // null: nobody said
  bool constructed = true; // it has lived: else `why` may be the constructor's own error, which passes through as it is
};

class ActorCalls {
 public:
  explicit ActorCalls(CallTable& calls) : calls_(calls) {}

  // ---- waiting for arguments
  void wait(PendingCall& call);
  void stop_waiting(PendingCall& call);
  /// A call of this caller waits: CAC-1 holds back the next one.
  bool waits(std::uint64_t caller) const { return !waiting_.empty() && waiting_.contains(caller); }
  /// Takes the first call of this caller out, when its arguments are there; null else. (CAC-1)
  PendingCall* next_of(std::uint64_t caller);

  // ---- waiting for a place
  void queue(PendingCall& call);
  void unqueue(PendingCall& call) { queued_.remove(call); }
  /// Sends what is queued there.
  void send_all(ProcessId process);

  // ---- sent
  /// A reply came, or needs no more to be awaited.
  void answered(PendingCall& call) { sent_.remove(call); }
  /// The answer was that the call had not begun: it is the next life's. (CAC-6)
  void came_back(PendingCall& call);
  bool answers_due() const { return sent_.size() > returned_; }

  // ---- the end of a life
  /// The process is dead: what it had begun is in `begun`.
  void suspect(const net::BegunCalls& begun);
  /// There is a next life: suspects are queued again in front of the others, or fail, in order. (CAC-2)
  void resend(const ActorEnd& end);
  /// There is none: fails what came back for it. (CAC-6)
  void fail_returned(const ActorEnd& end);
  /// No more replies come.
  void fail_sent(const ActorEnd& end);
  void fail_unsent(const ActorEnd& end);
  /// Fails one call that was not sent.
  void refuse(PendingCall& call, const ActorEnd& end);

 private:
  ErrorPtr error_for(const PendingCall& call, const ActorEnd& end, Outcome outcome) const;
  void end_sent(PendingCall& call, const ActorEnd& end, Outcome outcome);

  CallTable& calls_;
  std::map<std::uint64_t, CallList> waiting_;  // by caller: the first has an argument that is not there
  CallList queued_;                            // in order
  CallList sent_;                              // in order of sending
  std::size_t returned_ = 0;                   // of these (CAC-6)
};

}  // namespace troupe::worker
