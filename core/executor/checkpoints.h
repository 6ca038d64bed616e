// Checkpoints: takes an actor's checkpoint when it is due, and gives the last one back after a restart.
//
// Invariants
//   HA-2  A checkpoint is taken between calls: with one call open at a time nothing else runs in the actor meanwhile.
// Thread rule: lock held, but for take().
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

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
  /// Takes one now if it is due and no call is open; else makes sure that this is asked again when it is.
  void maybe_take(bool idle);

 private:
  void take();

  Host& host_;
  HostedActor& actor_;
  std::optional<wire::Checkpoint> last_;
  exec::Deadline taken_at_{};
  bool changed_ = false, timer_ = false, in_progress_ = false;
  std::uint64_t number_ = 0;
  std::shared_ptr<Outgoing> hold_;                          // the newest checkpoint's buffers and refs
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);   // timers look whether the actor still is
};

}  // namespace troupe::worker
