#include "core/head/state/actors/actor_record.h"

#include "core/head/state/actors/graveyard.h"

namespace troupe::head {

std::string ActorRecord::called() const {
  return "actor " + spec.class_name + (spec.name.empty() ? "" : " \"" + spec.name + "\"");
}

wire::ActorLocation ActorRecord::location(const Membership& membership) const {
  wire::ActorLocation where;
  where.actor = spec.id;
  where.restarts = restarts;
  if (told_dead) {
    const DeadActor dying{
        spec.id,
        spec.job,
        spec.name,
        spec.name_space,
        spec.class_name,
        light(),
        {DeathCause::kKilled, "it was killed by kill()", membership.node_id(last_node), pid, restarts},
        nullptr};
    where.state = wire::ActorState::kDead;
    where.error = dying.call_error();
  } else if (phase == Phase::kAlive) {
    where.state = wire::ActorState::kAlive;
    where.process = process;
  } else if (restarts > 0 || phase == Phase::kKilling) {
    where.state = wire::ActorState::kRestarting;
    if (last_error) where.error = *last_error;
  }
  return where;
}

}  // namespace troupe::head
