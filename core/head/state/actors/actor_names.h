// Who holds which name, and what waits for a name to be free.
//
// A name is held from an actor's creation to its death. Its holder may be ending (killed, or its last handle is gone)
// while its process still lives: a creation that finds that waits, and so does a look-up after it, for whoever made
// that creation may have said the name already.
//
//              take               a creation waits           release
//   FREE ---------------> HELD ----------------------> HELD, AWAITED ---> FREE, and what waited is handed back
//    ^       release       |  ^                             |
//    +---------------------+  +-- the last is withdrawn ----+
//
// Pure and of one thread. It knows names and ids; whether a holder is ending, and what is answered, its user says.
//
// Invariants
//   AN-1  A name is held by one actor at most; only the release of that actor makes it free.
//   AN-2  A creation that waits is handed back once, at the release of the name's holder or when it is withdrawn; those
//         of one name in the order in which they came.
//   AN-3  A look-up waits only where a creation waits for the same name, and is handed back with the last of them,
//         after it.
//   AN-4  A handle by name is given only to a program with the same registered functions: calls go by their index.
//   AN-5  Nothing of an actor waits here after withdraw(): its creation was handed back, every time that it was asked
//         for.
#pragma once
#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/head/state/events.h"
#include "core/head/state/jobs.h"

namespace troupe::head {

struct ActorName {
  std::string name_space, name;
  auto operator<=>(const ActorName&) const = default;
};

class ActorNames {
 public:
  using Creation = std::pair<Caller, wire::ActorSpec>;
  using LookUp = std::pair<Caller, wire::NamedActor>;
  /// What waits no more; to be asked anew, the creations first.
  struct Waiting {
    std::vector<Creation> creations;
    std::vector<LookUp> look_ups;
  };

  explicit ActorNames(const Jobs& jobs) : jobs_(jobs) {}

  /// The namespace of a creation that names none: its job's.
  std::string default_name_space(JobId job) const;
  std::optional<ActorId> holder(const ActorName& name) const;
  /// False when another has it (AN-1).
  bool take(const ActorName& name, ActorId actor);
  /// The actor is dead; nothing happens when the name is not its own.
  Waiting release(const ActorName& name, ActorId actor);

  /// The name's holder is ending: the creation waits for its release.
  void await(Caller caller, wire::ActorSpec creation);
  /// Does a creation wait for this name?
  bool awaited(const ActorName& name) const { return waiting_.contains(name); }
  /// Does the creation of this actor wait for its name? A walk over all that wait.
  bool waits(ActorId actor) const;
  /// This actor is not to be created any more (AN-5); nothing where it does not wait.
  Waiting withdraw(ActorId actor);
  /// Only for a name that is awaited (AN-3).
  void await(Caller caller, wire::NamedActor look_up);
  /// These processes have died, and want no answer. Their creations stay: whoever takes them back sees to what came
  /// with them.
  void forget_look_ups(const std::function<bool(ProcessId)>& of);
  std::size_t waiting_look_ups() const;

  /// Why a creation does not get the actor that has its name; nothing: it does.
  std::optional<ErrorRecord> refusal(const wire::ActorSpec& creation, const wire::ActorSpec& holder) const;
  /// The part of that which holds for look-ups, too (AN-4). Who asks without a job is trusted.
  std::optional<ErrorRecord> other_build(const Job* asker, const wire::ActorSpec& holder) const;

 private:
  const Jobs& jobs_;
  std::map<ActorName, ActorId> holders_;
  std::map<ActorName, Waiting> waiting_;  // none without a creation
};

}  // namespace troupe::head
