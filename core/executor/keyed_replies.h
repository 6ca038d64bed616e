// KeyedReplies: the answers of an actor's calls that had an idempotency key, for whoever asks with the same key again.
//
// Invariants
//   HA-3  A key whose call has been executed is answered from the table; one under way answers all who asked.
//   HA-5  What a key keeps goes an hour after its call (expire), also when nobody comes with another.
// Thread rule: lock held.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/executor/incoming.h"
#include "core/runtime/key_table.h"

namespace troupe::worker {

class Replies;

class KeyedReplies {
 public:
  explicit KeyedReplies(Replies& replies) : replies_(replies) {}

  /// True: the call is answered, or will be when the one under way ends. False: it is the first with its key and runs.
  bool answer(const IncomingPtr& call, exec::Deadline now);
  /// Forgets what is too old. When to come again; kNever: there is nothing to forget.
  exec::Deadline expire(exec::Deadline now) { return kept_.expire(now); }
  /// The call was executed: its results are kept, and given to those who asked meanwhile.
  void executed(const IncomingCall& call, std::vector<detail::Value>& results, exec::Deadline now);
  /// The call failed or was dropped, which is no execution to keep: those who asked meanwhile, the next of whom runs.
  std::vector<IncomingPtr> failed(const IncomingCall& call);
  /// Takes out one who asked meanwhile; null: not among them.
  IncomingPtr take_waiting(ProcessId source, std::uint64_t call_id);
  std::vector<IncomingPtr> take_all_waiting();

  /// For checkpoints: keys whose replies are plain bytes; others do not outlast a restart.
  std::vector<std::byte> encode();
  void restore(const std::vector<std::byte>& bytes, exec::Deadline now);

 private:
  struct Kept {
    std::shared_ptr<std::vector<detail::Value>> results;  // null: under way
    std::vector<IncomingPtr> waiting;
  };

  Replies& replies_;
  KeyTable<Kept> kept_;
};

}  // namespace troupe::worker
