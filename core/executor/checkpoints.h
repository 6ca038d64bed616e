// Checkpoints: takes an actor's checkpoint when it is due, and gives the last one back after a restart.
//
// The head keeps the newest checkpoint with all that it names (docs/decisions/015): values of refs that are ready go
// with it; when one that was pending becomes ready, the same state goes again.
//
// Invariants
//   HA-2  A checkpoint is taken between calls: nothing else runs in the actor meanwhile. When one is due and calls are
//         open, no further call begins until they have ended; but for kDrainMax at most, as they may wait for calls
//         that have yet to begin. Then it is tried again after kDrainPause, so that an actor whose calls never all end
//         loses a small part of its time.
// Thread rule: lock held, but for take().
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "core/exec/waiter.h"
#include "core/owner/holds.h"
#include "core/wire/messages.h"

namespace troupe::worker {

class Host;
class HostedActor;

class Checkpoints {
 public:
  Checkpoints(Host& host, HostedActor& actor) : host_(host), actor_(actor) {}

  /// After a restart: the state from which the actor goes on; none at its first start.
  void set_last(std::optional<wire::Checkpoint> checkpoint) { last_ = std::move(checkpoint); }
  const wire::Checkpoint* last() const { return last_ ? &*last_ : nullptr; }
  /// The actor lives and has what it needs of the last checkpoint.
  void begin(exec::Deadline now);

  /// A call was executed: there is something new to keep.
  void note_change() { changed_ = true; }
  bool in_progress() const { return in_progress_; }
  /// May no call begin, because one is being taken, or is due as soon as the open calls have ended?
  bool holds_calls() const { return in_progress_ || draining_; }
  /// Takes one now if it is due and no call is open; else makes sure that this is asked again when it is.
  void maybe_take(bool idle);

  /// A ref inside the newest checkpoint, which was pending, is settled.
  void ref_settled(ObjectId ref);

 private:
  void take();
  void begin_drain();
  /// Calls `action` at that time unless the actor is gone.
  void at(exec::Deadline when, std::function<void()> action);
  void send();
  void await(const detail::ObjectPtr& ref);

  Host& host_;
  HostedActor& actor_;
  std::optional<wire::Checkpoint> last_;
  exec::Deadline taken_at_{};
  exec::Deadline not_before_{};                             // the open calls did not end when this was waited for
  bool changed_ = false, timer_ = false, in_progress_ = false, draining_ = false, warned_ = false;
  bool warned_too_large_ = false;
  std::uint64_t drains_ = 0;
  std::uint64_t number_ = 0;
  std::shared_ptr<Outgoing> hold_;                          // the newest checkpoint's buffers and refs
  detail::Value state_;                                     // and itself, while refs inside are pending
  std::vector<std::byte> keys_;
  std::set<ObjectId> awaited_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);   // timers look whether the actor still is
};

}  // namespace troupe::worker
