// HandleCounts: tells the head which actors this process holds handles of.
//
//   hold, drop --a moment, in which the two of one actor cancel out--> kHandleCounts --the head agrees--> confirmed
//
// A handle that came in a frame is counted before that frame is acknowledged (owner/holds.h): until then its sender
// holds it.
//
// Invariants
//   CAC-4  A handle that the head gave by a name is held there from the head's answer on: the head hears of its drop,
//          also when the answer came too late for whoever asked. While such an answer is awaited, no drop is told: the
//          head may have counted the handle that it speaks of already.
//   CAC-9  The head hears of drops before it is asked for a name: whoever drops the last handle of an actor can say its
//          name again at once. Not while CAC-4 holds the drops back.
// Thread rule: lock held.
#pragma once
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/owner/holds.h"

namespace troupe::worker {

class Runtime;

/// What the head knows of this process's handle of one actor.
class HeldHandle {
 public:
  /// The head has counted it, or agrees that this process has it.
  bool confirmed() const { return confirmed_; }
  /// It is counted from the actor's creation on.
  void counted_by_creation() { told_ = confirmed_ = true; }
  void confirm() { confirmed_ = true; }
  /// True the first time: the head is to be told.
  bool tell() { return !std::exchange(told_, true); }
  /// The frame of that arrival is acknowledged when the head has counted us.
  void delay(std::uint64_t arrival) { arrivals_.push_back(arrival); }
  /// What brought it here waits for the head's count no more.
  void release(HoldTable& holds) {
    for (std::uint64_t arrival : std::exchange(arrivals_, {})) holds.confirmed(arrival);
  }

 private:
  bool told_ = false, confirmed_ = false;
  std::vector<std::uint64_t> arrivals_;  // frames that wait for the head's count
};

class HandleCounts {
 public:
  /// `find`: the handle that this process holds of an actor now; null when it holds none.
  HandleCounts(Runtime& runtime, HoldTable& holds, std::function<HeldHandle*(ActorId)> find)
      : runtime_(runtime), holds_(holds), find_(std::move(find)) {}

  /// A handle is here; it came with `arrival` (0: with none). True: that arrival must wait for the head's count.
  bool hold(ActorId actor, HeldHandle& handle, std::uint64_t arrival);
  /// The last handle of this actor is gone.
  void drop(ActorId actor);
  /// This process is about to create it: others may have its handle and ask for it before that. drop() takes it back.
  void begun(ActorId actor) {
    begun_.push_back(actor);
    flush_soon();
  }
  /// Tells the head now.
  void flush();
  /// The head was asked for an actor by name, and has answered. (CAC-4)
  void name_asked() { ++names_asked_; }
  void name_answered();

 private:
  void flush_later();
  void flush_soon();

  Runtime& runtime_;
  HoldTable& holds_;
  std::function<HeldHandle*(ActorId)> find_;
  std::map<ActorId, bool> changes_;  // to be told to the head: held or dropped
  std::vector<ActorId> begun_;       // likewise
  bool timer_ = false, soon_ = false;
  std::size_t names_asked_ = 0;      // CAC-4: answers that are awaited
};

}  // namespace troupe::worker
