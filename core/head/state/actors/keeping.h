// Keeping: what an actor needs beyond the processes that gave it: its constructor's arguments and its checkpoints
// (docs/decisions/015).
//
// Bodies up to 100 KiB lie in the head. Buffers are pinned by daemons, under a name (wire::KeptName): by that of the
// node where they were given, *home*, which does so as it passes the frame on, and for actors that may come back also
// by one of another node, *away*, which copies them. Handles inside are counted for as long as what they are in is
// kept.
//
//   GIVEN (home pins) --kKeep to another node--> COPYING --KeepReply--> SAFE (home and away pin)
//        ^                                          | store full, node dead: a warning
//        +------------------------------------------+
//   home dies: away is home from now on, another is asked to copy; home dies without away: LOST
//
// Invariants
//   KP-1  Every daemon that pins under a name hears that it may let go: when something newer took its place, when
//         nothing will be made of it any more, or when its actor is dead.
//   KP-2  The last checkpoint that is safe stays until a newer one is, or no other node is left to be safe on.
//   KP-3  An actor comes back with its newest checkpoint that is not lost. When all are, or its arguments are, it ends,
//         and its death names the node that kept them.
//   KP-4  The creator holds refs and handles of the arguments until the process that constructs the actor has told it
//         that they are counted there, or the head that the actor is dead (kArgumentsTaken). The head tells it always:
//         that process may end before it knows that all is counted.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/head/state/events.h"
#include "core/head/state/actors/handles.h"
#include "core/head/state/membership.h"

namespace troupe::head {

class Keeping {
 public:
  Keeping(const Membership& membership, Holds& holds) : membership_(membership), holds_(holds) {}

  /// A creation that came by way of this node's daemon, registered or not.
  void created(Turn& turn, const wire::ActorSpec& spec, std::uint32_t home);
  void refused(Turn& turn, const wire::ActorSpec& spec, std::uint32_t home);
  /// It was constructed.
  void started(Turn& turn, const wire::ActorSpec& spec);
  /// A checkpoint of its present life, or one that is not (stale).
  void checkpoint(Turn& turn, wire::Checkpoint checkpoint, std::uint32_t home);
  void stale(Turn& turn, const wire::Checkpoint& checkpoint, std::uint32_t home);
  /// Fills in what the next life begins with. Why it cannot begin, when that is lost.
  std::optional<std::string> restore(Turn& turn, wire::StartActor& start);
  void ended(Turn& turn, const wire::ActorSpec& spec);

  /// The answer to a request of this class; false: it was none.
  bool answered(Turn& turn, std::uint32_t node, std::uint64_t token, const Message& body);
  void node_died(Turn& turn, std::uint32_t node);
  /// Copies can be had that could not before.
  void node_joined(Turn& turn);

  /// Actors whose handles were let go of since the last look: they may have no holder any more.
  std::vector<ActorId> take_released() { return std::exchange(released_, {}); }
  /// How many actors something is kept for.
  std::size_t size() const { return kept_.size(); }

 private:
  struct Thing {
    wire::KeptName name;
    std::uint32_t home = 0, away = 0, asked = 0;  // nodes; 0: none
    std::uint64_t token = 0;                      // of the question to `asked`
    std::vector<wire::BufferDesc> at_home, at_away;
    ProcessId holder;       // in whose name its handles are counted; nil: it has none
    std::string lost_with;  // the node that had the last copy
    bool lost() const { return !at_home.empty() && home == 0; }
    bool safe() const { return at_home.empty() || (home != 0 && away != 0); }
  };
  struct Saved {
    wire::Checkpoint checkpoint;
    Thing thing;
  };
  using SavedPtr = std::shared_ptr<Saved>;
  struct Kept {
    Thing arguments;
    bool comes_back = false;
    ProcessId creator;           // holds refs or handles of the arguments (KP-4); nil: nothing, or no more
    std::uint32_t lives_on = 0;  // its node, as far as that is known
    SavedPtr latest, copying, safe;
  };

  Thing give(wire::KeptName name, std::uint32_t home, std::vector<wire::BufferDesc> buffers,
             std::vector<ActorId> handles);
  void let_go(Turn& turn, Thing& thing);
  void drop(Turn& turn, Kept& kept, SavedPtr saved);
  void settle(Turn& turn, Kept& kept);
  void copy(Turn& turn, Kept& kept, Thing& thing);
  bool lose(Thing& thing, std::uint32_t node) const;
  void each(const std::function<void(Kept& kept, const std::vector<Thing*>& things)>& see);
  void free_creator(Turn& turn, Kept& kept);
  std::uint32_t other_node(const Kept& kept, const Thing& thing) const;
  void tell_no_more(Turn& turn, std::uint32_t node, const wire::KeptName& name) const;

  const Membership& membership_;
  Holds& holds_;
  std::unordered_map<ActorId, Kept, IdHash> kept_;
  std::map<std::uint64_t, wire::KeptName> asked_;  // by token
  std::vector<ActorId> released_;
  std::uint64_t last_token_ = 0;
  std::uint32_t last_holder_ = 0;
};

}  // namespace troupe::head
