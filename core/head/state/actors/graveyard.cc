#include "core/head/state/actors/graveyard.h"

namespace troupe::head {

const char* cause_text(DeathCause cause) {
  switch (cause) {
    case DeathCause::kFinished: return "it finished";
    case DeathCause::kKilled: return "it was killed by request";
    case DeathCause::kCrashed: return "its process crashed";
    case DeathCause::kOutOfMemory: return "its process ran out of memory";
    case DeathCause::kNodeDied: return "its node died";
    case DeathCause::kConstructorFailed: return "its constructor failed";
    case DeathCause::kJobEnded: return "its job ended";
  }
  return "it died";
}

ErrorRecord DeadActor::call_error() const {
  if (error && error->code != ErrorCode::kActorDied) return *error;
  ErrorRecord record = error ? *error : ErrorRecord{};
  record.code = ErrorCode::kActorDied;
  record.message = "actor " + class_name + (name.empty() ? "" : " \"" + name + "\"") + " is dead: " + death.message;
  record.outcome = Outcome::kNotExecuted;
  record.context.actor_id = to_string(id);
  record.context.node = death.node;
  record.context.pid = death.pid;
  record.context.attempt = death.restarts;
  return record;
}

const DeadActor& Graveyard::bury(DeadActor actor) {
  if (actor.death.message.empty()) actor.death.message = cause_text(actor.death.cause);
  const ActorId id = actor.id;
  auto [at, fresh] = dead_.insert_or_assign(id, std::move(actor));
  if (fresh) order_.push_back(id);
  if (order_.size() > kDeadActorsKept) {
    dead_.erase(order_.front());
    order_.pop_front();
  }
  return at->second;
}

const DeadActor* Graveyard::find(ActorId actor) const {
  auto at = dead_.find(actor);
  return at == dead_.end() ? nullptr : &at->second;
}

}  // namespace troupe::head
