// Who wants to hear of an actor: subscribers of its moves, monitors of its death, and questions about an actor that is
// not known yet.
//
//   question ----> PARKED ---- the actor becomes known: take() ----> asked again, in their order
//                    | kUnknownGrace, unless its maker is about to create it
//                    +----> answered: nobody knows the actor
//
// Pure and of one thread. Reports of different processes race, so that a question may overtake the creation that it is
// about; whether an actor is known, its user says.
//
// Invariants
//   AQ-1  A subscriber hears each move once, in their order, and the death as the last; it is no subscriber then.
//   AQ-2  A monitor is answered once, when the actor is dead, unless its process has died before.
//   AQ-3  A parked question is handed back once, or answered after kUnknownGrace: never both, never neither. About an
//         actor that is about to be created it waits on, but for a kill.
#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/head/state/events.h"
#include "core/head/state/actors/graveyard.h"
#include "core/head/state/actors/handles.h"

namespace troupe::head {

inline constexpr Duration kUnknownGrace = std::chrono::seconds(5);

class ActorQuestions {
 public:
  /// A request about one actor, as it came: kResolveActor, kMonitorActor or kKillActor.
  struct Question {
    Caller caller;
    wire::Method method = {};
    bool restart = false;  // of kKillActor
  };

  void subscribe(ProcessId process, ActorId actor) { subscribers_.add(process, actor); }
  void unsubscribe(ProcessId process, ActorId actor) { subscribers_.remove(process, actor); }
  bool has_subscribers(ActorId actor) const { return !subscribers_.of(actor).empty(); }
  /// Processes that subscribed to anything, ascending.
  std::vector<ProcessId> subscribers() const { return subscribers_.processes(); }
  void monitor(Caller caller, ActorId actor) { monitors_[actor].push_back(caller); }
  void moved(Turn& turn, const wire::ActorLocation& where) const;
  enum class Subscribers : std::uint8_t { kTell, kKnowAlready };
  void died(Turn& turn, const DeadActor& dead, Subscribers subscribers);

  void park(Turn& turn, ActorId actor, Question question);
  /// The actor is known now: what waited for that, in its order.
  std::vector<Question> take(ActorId actor);

  /// The process wants to hear of nothing any more.
  void process_died(ProcessId process);
  void node_died(std::uint32_t node);
  /// Answers what has waited for long enough; the actors that were to be killed for good, and that nobody knows.
  /// `is_begun`: is that one about to be created?
  std::vector<ActorId> on_time(Turn& turn, const std::function<bool(ActorId)>& is_begun);
  std::optional<Time> next_deadline() const;

 private:
  struct Parked {
    Time until;
    std::vector<Question> questions;
  };
  void forget_monitors(const std::function<bool(ProcessId)>& of);

  Subscriptions subscribers_;
  std::unordered_map<ActorId, std::vector<Caller>, IdHash> monitors_;
  std::unordered_map<ActorId, Parked, IdHash> parked_;
  std::deque<std::pair<Time, ActorId>> deadlines_;  // ascending, of parked_; also of what was taken since
};

}  // namespace troupe::head
