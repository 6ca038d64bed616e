// Questions to the directory: where is it, tell me when it dies, who has that name; and light actors, reports, timers,
// rows.
#include <algorithm>

#include "core/wire/handles.h"
#include "core/head/state/actors.h"

namespace troupe::head {

Actors::Known Actors::known(ActorId id) {
  if (actors_.contains(id)) return Known::kRecord;
  if (light_.find(id)) return Known::kLight;
  return graveyard_.find(id) ? Known::kDead : Known::kNo;
}

wire::ActorLocation Actors::location(const Actor& actor) const {
  wire::ActorLocation where;
  where.actor = actor.spec.id;
  where.restarts = actor.restarts;
  if (actor.told_dead) {
    DeadActor dying{actor.spec.id,
                    actor.spec.job,
                    actor.spec.name,
                    actor.spec.name_space,
                    actor.spec.class_name,
                    actor.light(),
                    {DeathCause::kKilled, "it was killed by kill()", world_.membership.node_id(actor.last_node),
                     actor.pid, actor.restarts},
                    nullptr};
    where.state = wire::ActorState::kDead;
    where.error = dying.call_error();
  } else if (actor.phase == Phase::kAlive) {
    where.state = wire::ActorState::kAlive;
    where.process = actor.process;
  } else if (actor.restarts > 0 || actor.phase == Phase::kKilling) {
    where.state = wire::ActorState::kRestarting;
    if (actor.last_error) where.error = *actor.last_error;
  }
  return where;
}

void Actors::moved(Turn& turn, const Actor& actor) {
  if (questions_.has_subscribers(actor.spec.id)) questions_.moved(turn, location(actor));
}

void Actors::resolve(Turn& turn, Caller caller, ActorId id) {
  switch (known(id)) {
    case Known::kNo: return questions_.park(turn, id, {caller, wire::Method::kResolveActor});
    case Known::kDead: {
      const DeadActor* dead = graveyard_.find(id);
      turn.effects.respond(
          caller.process, caller.token,
          wire::ActorLocation{id, wire::ActorState::kDead, {}, dead->death.restarts, dead->call_error()});
      return;
    }
    case Known::kLight:
      questions_.subscribe(caller.process, id);
      turn.effects.respond(caller.process, caller.token,
                           wire::ActorLocation{id, wire::ActorState::kAlive, light_.find(id)->host, 0, std::nullopt});
      return;
    case Known::kRecord:
      questions_.subscribe(caller.process, id);
      turn.effects.respond(caller.process, caller.token, location(*actors_.at(id)));
      return;
  }
}

void Actors::monitor(Turn& turn, Caller caller, ActorId id) {
  Known what = known(id);
  if (what == Known::kNo) return questions_.park(turn, id, {caller, wire::Method::kMonitorActor});
  if (what == Known::kDead) turn.effects.respond(caller.process, caller.token, graveyard_.find(id)->death);
  else questions_.monitor(caller, id);
}

void Actors::kill(Turn& turn, Caller caller, wire::KillActor request) {
  Known what = known(request.actor);
  if (what == Known::kNo)
    return questions_.park(turn, request.actor, {caller, wire::Method::kKillActor, request.restart});
  if (what == Known::kRecord) begin_kill(turn, *actors_.at(request.actor), request.restart);
  if (what == Known::kLight) {
    turn.effects.notice(light_.find(request.actor)->host, wire::Method::kEndActor,
                        wire::EndActor{request.actor, DeathCause::kKilled, "killed by kill()"});
    light_died(turn, request.actor, {DeathCause::kKilled, "it was killed by kill()", {}, 0, 0});
  }
  // After the news of it: once kill() has returned, the caller's next call finds the actor dead.
  turn.effects.respond(caller.process, caller.token, wire::Empty{});
}

void Actors::get_named(Turn& turn, Caller caller, wire::NamedActor request) {
  const Job* job = world_.jobs.of_driver(caller.process);
  if (auto at = hosted_.find(caller.process); !job && at != hosted_.end())
    job = world_.jobs.find(actors_.at(at->second.front())->spec.job);
  if (request.name_space.empty() && job) request.name_space = job->name_space;
  const ActorName name{request.name_space, request.name};
  const std::optional<ActorId> holder = names_.holder(name);
  const Actor* actor = holder ? actors_.at(*holder).get() : nullptr;
  if (actor && actor->ending() && names_.awaited(name)) return names_.await(caller, std::move(request));
  if (!actor || actor->ending()) {
    turn.effects.respond(caller.process, caller.token,
                         error_record(ErrorCode::kActorNotFound, "no actor named \"" + request.name +
                                                                     "\" in namespace \"" + request.name_space + "\""));
    return;
  }
  if (std::optional<ErrorRecord> other = names_.other_build(job, actor->spec)) {
    turn.effects.respond(caller.process, caller.token, std::move(*other));
    return;
  }
  // Held from this moment: the answer must not arrive at a handle whose actor has ended for want of handles.
  holds_.hold(caller.process, *holder);
  turn.effects.respond(caller.process, caller.token, wire::NamedActorReply{wire::handle_of(actor->spec)});
}

void Actors::handle_counts(Turn& turn, ProcessId holder, const wire::HandleCounts& counts) {
  for (ActorId id : counts.held)
    if (!graveyard_.find(id)) holds_.hold(holder, id);
  for (ActorId id : counts.dropped) {
    questions_.unsubscribe(holder, id);
    if (graveyard_.find(id)) continue;  // nobody holds it any more (HC-4)
    if (holds_.drop(holder, id)) release(turn, id);
  }
}

void Actors::light(Turn& turn, const wire::LightActors& report) {
  const std::uint32_t kind = light_.kind_of(report.class_name);
  const bool alive = world_.liveness.alive(report.process);
  for (ActorId id : report.started) {
    if (known(id) != Known::kNo) continue;
    light_.add(id, report.process, report.job, kind);
    bool maker_alive = world_.liveness.alive(id.maker);
    holds_.created(id);
    if (!maker_alive) holds_.drop(id.maker, id);
    if (!alive)
      light_died(turn, id,
                 {DeathCause::kCrashed, "the process that it shared with other light actors had ended", {}, 0, 0});
    else release(turn, id);
    answer_parked(turn, id);
  }
  for (ActorId id : report.ended) {
    wire::ActorExited ended;
    ended.actor = id;
    ended.process = report.process;
    on_exited(turn, ended);
  }
}

// ------------------------------------------------------------------------------------------------ not yet known (AC-5)

void Actors::answer_parked(Turn& turn, ActorId id) {
  for (const ActorQuestions::Question& question : questions_.take(id)) {
    if (question.method == wire::Method::kResolveActor) resolve(turn, question.caller, id);
    else if (question.method == wire::Method::kMonitorActor) monitor(turn, question.caller, id);
    else kill(turn, question.caller, {id, question.restart});
  }
}

// ---------------------------------------------------------------------------------------------------------------- time

void Actors::on_time(Turn& turn) {
  for (; !orphans_.empty() && orphans_.front().first <= turn.now; orphans_.pop_front())
    for (ActorId id : orphans_.front().second) release(turn, id);
  while (!timers_.empty() && timers_.begin()->first <= turn.now) {
    const Timer timer = timers_.begin()->second;
    timers_.erase(timers_.begin());
    auto at = actors_.find(timer.actor);
    if (at == actors_.end() || at->second->stamp != timer.stamp) continue;
    Actor& actor = *at->second;
    if (timer.kind == TimerKind::kRetry) {
      enqueue(turn, actor);
    } else if (timer.kind == TimerKind::kWarn) {
      warn_waiting(turn, actor);
    } else if (actor.phase == Phase::kKilling) {
      turn.effects.warn(called(actor) + ": its node did not confirm the end of process " + to_string(actor.process) +
                        " in time");
      process_gone(turn, actor, {});
    }
  }
  questions_.on_time(turn);
}

std::optional<Time> Actors::next_deadline() const {
  std::optional<Time> next = questions_.next_deadline();
  if (!timers_.empty() && (!next || timers_.begin()->first < *next)) next = timers_.begin()->first;
  if (!orphans_.empty() && (!next || orphans_.front().first < *next)) next = orphans_.front().first;
  return next;
}

// ---------------------------------------------------------------------------------------------------------------- rows

bool Actors::hosts_any(ProcessId process) const { return hosted_.contains(process) || light_.hosted(process) != 0; }

std::optional<wire::ActorState> Actors::state_of(ActorId id) const {
  if (auto at = actors_.find(id); at != actors_.end()) return location(*at->second).state;
  if (light_.find(id)) return wire::ActorState::kAlive;
  return graveyard_.find(id) ? std::optional(wire::ActorState::kDead) : std::nullopt;
}

wire::StateReply Actors::rows(JobId job) const {
  wire::StateReply reply;
  auto add = [&](ActorId id, const std::string& name, const std::string& name_space, const std::string& class_name,
                 const char* state, const std::string& node, int pid, int restarts) {
    reply.rows.push_back({{"actor_id", to_string(id)},
                          {"name", name},
                          {"name_space", name_space},
                          {"class_name", class_name},
                          {"state", state},
                          {"node_id", node},
                          {"pid", std::to_string(pid)},
                          {"restarts", std::to_string(restarts)}});
  };
  std::vector<ActorId> ids;
  for (const auto& [id, actor] : actors_) if (job == 0 || actor->spec.job == job) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (ActorId id : ids) {
    static constexpr const char* kNames[] = {"PENDING", "ALIVE", "RESTARTING", "DEAD"};
    const Actor& actor = *actors_.at(id);
    add(id, actor.spec.name, actor.spec.name_space, actor.spec.class_name,
        kNames[static_cast<int>(location(actor).state)], world_.membership.node_id(actor.last_node), actor.pid,
        actor.restarts);
  }
  for (ActorId id : light_.all()) {
    const LightActor& actor = *light_.find(id);
    if (job != 0 && actor.job != job) continue;
    const Job* owner = world_.jobs.find(actor.job);
    add(id, "", owner ? owner->name_space : "", light_.class_name(actor), "ALIVE",
        world_.membership.node_id(actor.host.node), 0, 0);
  }
  graveyard_.each([&](const DeadActor& dead) {
    if (job == 0 || dead.job == job)
      add(dead.id, dead.name, dead.name_space, dead.class_name, "DEAD", dead.death.node, dead.death.pid,
          dead.death.restarts);
  });
  return reply;
}

}  // namespace troupe::head
