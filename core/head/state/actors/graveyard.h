// The last actors that died: what monitors, late resolvers and listings are told of them.
//
// Invariants
//   GY-1  At most kDeadActorsKept are remembered, the latest; a dead actor is never forgotten before an older one.
//   GY-2  ActorDeath.message is never empty.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/head/state/events.h"

namespace troupe::head {

inline constexpr std::size_t kDeadActorsKept = 10'000;

struct DeadActor {
  ActorId id;
  JobId job = 0;
  std::string name, name_space, class_name;
  bool light = false;
  ActorDeath death;
  // what calls fail with, where it is not made from `death` (shared: a light host that crashes gives its log lines to
  // thousands)
  std::shared_ptr<const ErrorRecord> error;
  /// What calls of it fail with.
  ErrorRecord call_error() const;
};

/// Words for a cause, for messages that came without any.
const char* cause_text(DeathCause cause);

class Graveyard {
 public:
  const DeadActor& bury(DeadActor actor);
  const DeadActor* find(ActorId actor) const;
  /// Oldest first.
  template <class Visit> void each(Visit&& visit) const {
    for (ActorId id : order_) visit(dead_.at(id));
  }

 private:
  std::unordered_map<ActorId, DeadActor, IdHash> dead_;
  std::deque<ActorId> order_;
};

}  // namespace troupe::head
