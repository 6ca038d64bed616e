// Creation, names and placement. Life is in actors_life.cc, death in actors_end.cc, questions in actors_query.cc.
#include "core/wire/handles.h"
#include "core/head/state/actors.h"

namespace troupe::head {

std::uint64_t Actors::arm(Turn& turn, Duration delay, TimerKind kind, ActorId actor) {
  timers_.emplace(turn.now + delay, Timer{kind, actor, ++stamps_});
  return stamps_;
}

std::optional<ErrorRecord> Actors::refusal(const Caller& caller, const wire::ActorSpec& spec) const {
  if (spec.id.is_nil()) return error_record(ErrorCode::kInvalidArgument, "the actor's creation carries no id");
  if (spec.lifetime == Lifetime::kDetached && spec.name.empty()) {
    return error_record(ErrorCode::kInvalidArgument, "a detached actor needs a name: nothing else would find it again");
  }
  if (auto problem = sched::resource_problem(spec.resources))
    return error_record(ErrorCode::kInvalidArgument, *problem);
  if (auto problem = sched::selector_problem(spec.labels)) return error_record(ErrorCode::kInvalidArgument, *problem);
  if (spec.job != 0 && !world_.jobs.running(spec.job) && !hosts_any(caller.process)) {
    return error_record(ErrorCode::kCancelled,
                        "job " + std::to_string(spec.job) + " has ended: it creates no more actors");
  }
  sched::Decision decision = placement_.decide(spec);
  if (decision.kind == sched::Decision::Kind::kInfeasible) {
    return error_record(
        ErrorCode::kInfeasible,
        "actor " + spec.class_name + (spec.name.empty() ? "" : " \"" + spec.name + "\"") + ": " + decision.reason);
  }
  return std::nullopt;
}

void Actors::create(Turn& turn, Caller caller, wire::ActorSpec spec) {
  if (spec.creator == ProcessId{}) spec.creator = caller.process;
  if (auto at = actors_.find(spec.id); at != actors_.end()) {  // asked again: the same answer
    turn.effects.respond(caller.process, caller.token,
                         wire::CreateActorReply{wire::handle_of(at->second->spec), false});
    return;
  }
  if (auto error = refusal(caller, spec)) {
    keeping_.refused(turn, spec, caller.process.node);
    turn.effects.respond(caller.process, caller.token, std::move(*error));
    return;
  }
  if (!spec.name.empty() && !take_name(turn, caller, spec)) return;
  const ActorId id = spec.id;
  auto& actor = *actors_.emplace(id, std::make_unique<Actor>()).first->second;
  actor.spec = std::move(spec);
  holds_.created(id);
  keeping_.created(turn, actor.spec, caller.process.node);
  questions_.subscribe(caller.process, id);
  turn.effects.respond(caller.process, caller.token, wire::CreateActorReply{wire::handle_of(actor.spec), false});
  enqueue(turn, actor);
  answer_parked(turn, id);
  release(turn, id);
}

bool Actors::take_name(Turn& turn, const Caller& caller, wire::ActorSpec& spec) {
  if (spec.name_space.empty()) spec.name_space = names_.default_name_space(spec.job);
  const ActorName name{spec.name_space, spec.name};
  const std::optional<ActorId> holder_id = names_.holder(name);
  if (!holder_id) return names_.take(name, spec.id);
  const Actor& holder = *actors_.at(*holder_id);
  if (holder.ending()) {
    names_.await(caller, std::move(spec));
    return false;
  }
  if (std::optional<ErrorRecord> error = names_.refusal(spec, holder.spec)) {
    turn.effects.respond(caller.process, caller.token, std::move(*error));
  } else {
    holds_.hold(caller.process, holder.spec.id);
    turn.effects.respond(caller.process, caller.token, wire::CreateActorReply{wire::handle_of(holder.spec), true});
  }
  keeping_.refused(turn, spec, caller.process.node);
  return false;
}

void Actors::free_name(Turn& turn, const Actor& actor) {
  if (actor.spec.name.empty()) return;
  ActorNames::Waiting waiting = names_.release({actor.spec.name_space, actor.spec.name}, actor.spec.id);
  for (auto& [caller, spec] : waiting.creations) {
    if (world_.liveness.alive(caller.process)) create(turn, caller, std::move(spec));
    else keeping_.refused(turn, spec, caller.process.node);
  }
  for (auto& [caller, request] : waiting.look_ups)
    if (world_.liveness.alive(caller.process)) get_named(turn, caller, std::move(request));
}

void Actors::enqueue(Turn& turn, Actor& actor) {
  actor.phase = Phase::kPending;
  actor.node = 0;
  placement_.wait(actor.spec);
  actor.stamp = arm(turn, placement_.warn_after(actor.spec), TimerKind::kWarn, actor.spec.id);
  place_waiting(turn);
}

void Actors::place_waiting(Turn& turn) {
  placement_.pass([&](ActorId id) { return try_place(turn, id); });
}

ActorPlacement::Attempt Actors::try_place(Turn& turn, ActorId id) {
  using Kind = sched::Decision::Kind;
  auto at = actors_.find(id);
  if (at == actors_.end() || at->second->phase != Phase::kPending || at->second->node != 0)
    return ActorPlacement::Attempt::kPlaced;
  Actor& actor = *at->second;
  sched::Decision decision = placement_.decide(actor.spec);
  if (decision.kind == Kind::kWait) return ActorPlacement::Attempt::kNoRoom;
  if (decision.kind == Kind::kInfeasible) {
    auto error =
        std::make_shared<ErrorRecord>(error_record(ErrorCode::kInfeasible, called(actor) + ": " + decision.reason));
    die(turn, actor,
        {DeathCause::kNodeDied, "it cannot be placed any more: " + decision.reason, {}, actor.pid, actor.restarts},
        std::move(error));
    return ActorPlacement::Attempt::kPlaced;
  }
  start_on(turn, actor, decision.node);
  return ActorPlacement::Attempt::kPlaced;
}

void Actors::start_on(Turn& turn, Actor& actor, std::uint32_t node) {
  wire::StartActor start;
  start.spec = actor.spec;
  start.restarts = actor.restarts;
  if (std::optional<std::string> lost = keeping_.restore(turn, start)) {
    die(turn, actor, {DeathCause::kNodeDied, "it cannot come back: " + *lost, {}, actor.pid, actor.restarts});
    return;
  }
  actor.phase = Phase::kStarting;
  actor.node = actor.last_node = node;
  actor.process = {};
  actor.stamp = 0;
  placement_.placed(actor.spec, node);
  turn.effects.notice(daemon_of(node), wire::Method::kStartActor, std::move(start));
}

void Actors::warn_waiting(Turn& turn, const Actor& actor) {
  std::optional<std::string> why = placement_.why_waiting(turn.now, actor.spec);
  if (!why) return;
  std::string text = called(actor) + " is waiting for a place: " + *why;
  turn.effects.warn(text);
  const Job* job = world_.jobs.find(actor.spec.job);
  if (job && job->state == "RUNNING")
    turn.effects.notice(job->driver, wire::Method::kWarning, wire::WarningText{std::move(text)});
}

std::string Actors::called(const Actor& actor) const {
  return "actor " + actor.spec.class_name + (actor.spec.name.empty() ? "" : " \"" + actor.spec.name + "\"");
}

}  // namespace troupe::head
