// Kill, exit, the last handle, the end of a job, and death: every way to DEAD in actors.h.
#include <algorithm>
#include <set>
#include <utility>

#include "core/head/state/actors.h"

namespace troupe::head {

void Actors::begin_kill(Turn& turn, Actor& actor, bool revive) {
  const ActorId id = actor.spec.id;
  bool running = actor.phase == Phase::kAlive || (actor.phase == Phase::kStarting && actor.process != ProcessId{});
  if (actor.phase == Phase::kKilling) {
    if (revive || !actor.revive) return;  // as asked before, or more gently: the sharper one holds
    actor.revive = false;
    actor.told_dead = true;
    moved(turn, actor);
    return;
  }
  if (revive && !running) return;  // it is on its way back already
  std::string reason = "killed by kill()";
  if (actor.light() && running) {
    turn.effects.notice(actor.process, wire::Method::kEndActor, wire::EndActor{id, DeathCause::kKilled, reason});
  } else if (running || actor.phase == Phase::kStarting) {
    ProcessId target = running ? actor.process : daemon_of(actor.node);
    turn.effects.notice(daemon_of(actor.node), wire::Method::kKillActorProcess,
                        wire::KillProcess{target, reason, DeathCause::kKilled, id});
  }
  if (!running || (actor.light() && !revive)) {
    die(turn, actor, {DeathCause::kKilled, "it was killed by kill()", {}, actor.pid, actor.restarts});
    return;
  }
  actor.phase = Phase::kKilling;
  actor.revive = revive;
  actor.told_dead = !revive;
  actor.stamp = arm(turn, kKillGrace, TimerKind::kKillOverdue, id);
  moved(turn, actor);
}

void Actors::on_exited(Turn& turn, const wire::ActorExited& report) {
  std::shared_ptr<const ErrorRecord> error;
  if (report.error) error = std::make_shared<ErrorRecord>(*report.error);
  ActorDeath death{report.cause, report.message, {}, 0, report.restarts};
  if (death.message.empty() && report.error) death.message = report.error->message;
  if (LightActor* light = light_.find(report.actor)) {
    if (light->host == report.process) light_died(turn, report.actor, std::move(death), std::move(error));
    return;
  }
  auto at = actors_.find(report.actor);
  if (at == actors_.end()) {
    if (graveyard_.find(report.actor) || !world_.liveness.alive(report.process)) return;
    // A light actor that ended before its creation was told: remembered, so that the late report does not revive it.
    death.node = world_.membership.node_id(report.process.node);
    buried(turn, {report.actor, 0, {}, {}, {}, true, std::move(death), std::move(error)}, Subscribers::kTell);
    return;
  }
  Actor& actor = *at->second;
  bool runs = actor.phase == Phase::kAlive || actor.phase == Phase::kStarting || actor.phase == Phase::kKilling;
  if (!runs || actor.restarts != report.restarts || actor.node != report.process.node) return;
  if (actor.process != ProcessId{} && actor.process != report.process) return;
  if (actor.phase == Phase::kKilling) return process_gone(turn, actor, {});
  if (report.cause == DeathCause::kCrashed || report.cause == DeathCause::kOutOfMemory)
    return crash(turn, actor, {report.cause, report.message, {}});
  death.pid = actor.pid;
  if (death.message.empty() && actor.handles_gone) death.message = "its last handle is gone";
  die(turn, actor, std::move(death), std::move(error));
}

void Actors::release(Turn& turn, ActorId id) {
  if (holds_.holders(id) != 0) return;
  if (LightActor* light = light_.find(id)) {
    if (std::exchange(light->released, true)) return;
    turn.effects.notice(light->host, wire::Method::kActorHandlesGone, wire::ResolveActor{id});
    return;
  }
  auto at = actors_.find(id);
  if (at == actors_.end() || !at->second->scoped() || at->second->handles_gone) return;
  Actor& actor = *at->second;
  if (actor.phase == Phase::kStarting) return;  // it is told when it has started
  if (actor.phase == Phase::kAlive) {
    actor.handles_gone = true;
    turn.effects.notice(actor.process, wire::Method::kActorHandlesGone, wire::ResolveActor{id});
  } else if (actor.phase == Phase::kPending || actor.phase == Phase::kBackoff) {
    die(turn, actor, {DeathCause::kFinished, "its last handle is gone", {}, actor.pid, actor.restarts});
  } else {
    actor.handles_gone = true;  // kKilling: it will not be revived
  }
}

std::vector<ActorId> Actors::survivors_of(JobId job, wire::JobEnded& keep) const {
  // Detached actors, and what was created from a process that hosts a survivor, and so on.
  std::set<ActorId> kept;
  std::set<ProcessId> hosts;
  std::vector<ActorId> light;
  std::size_t before;
  do {
    before = kept.size();
    for (const auto& [id, actor] : actors_) {
      if (actor->spec.job != job || kept.contains(id)) continue;
      if (actor->scoped() && !hosts.contains(actor->spec.creator)) continue;
      if (actor->told_dead) continue;
      kept.insert(id);
      if (actor->process != ProcessId{}) hosts.insert(actor->process);
    }
    if (hosts.empty()) continue;
    for (ActorId id : light_.all()) {
      if (hosts.contains(id.maker) && light_.find(id)->job == job && kept.insert(id).second)
        hosts.insert(light_.find(id)->host);
    }
  } while (kept.size() != before);
  keep.keep_actors.assign(kept.begin(), kept.end());
  keep.keep_processes.assign(hosts.begin(), hosts.end());
  return keep.keep_actors;
}

wire::JobEnded Actors::on_job_ended(Turn& turn, JobId job, const std::string& reason) {
  wire::JobEnded ended;
  ended.job = job;
  ended.reason = reason;
  const std::vector<ActorId> kept = survivors_of(job, ended);
  auto stays = [&](ActorId id) { return std::binary_search(kept.begin(), kept.end(), id); };
  // nodes where a light actor that stays is starting, in a host that we do not know yet
  std::set<std::uint32_t> unsure;
  for (ActorId id : kept) {
    auto at = actors_.find(id);
    if (at != actors_.end() && at->second->light() && at->second->phase == Phase::kStarting)
      unsure.insert(at->second->node);
  }
  auto host_stays = [&](ProcessId process) {
    return unsure.contains(process.node) ||
           std::binary_search(ended.keep_processes.begin(), ended.keep_processes.end(), process);
  };
  std::string text = "its job " + std::to_string(job) + " ended" + (reason.empty() ? "" : ": " + reason);
  auto end_in_place = [&](ActorId id, ProcessId host) {
    if (host_stays(host))
      turn.effects.notice(host, wire::Method::kEndActor, wire::EndActor{id, DeathCause::kJobEnded, text});
  };
  std::vector<ActorId> ending;
  for (const auto& [id, actor] : actors_) if (actor->spec.job == job && !stays(id)) ending.push_back(id);
  std::sort(ending.begin(), ending.end());
  for (ActorId id : ending) {
    auto at = actors_.find(id);
    if (at == actors_.end()) continue;
    Actor& actor = *at->second;
    if (actor.light() && actor.process != ProcessId{}) end_in_place(id, actor.process);
    die(turn, actor, {DeathCause::kJobEnded, text, {}, actor.pid, actor.restarts});
  }
  for (ActorId id : light_.all()) {
    const LightActor* light = light_.find(id);
    if (light->job != job || stays(id)) continue;
    end_in_place(id, light->host);
    light_died(turn, id, {DeathCause::kJobEnded, text, {}, 0, 0});
  }
  if (!kept.empty()) outlived_[job] = kept.front();
  return ended;
}

std::optional<ActorId> Actors::any_of(JobId job) const {
  for (const auto& [id, actor] : actors_) if (actor->spec.job == job) return id;
  for (ActorId id : light_.all()) if (light_.find(id)->job == job) return id;
  return std::nullopt;
}

/// AC-6: the daemons keep an ended job's launcher and program only for the actors that it left behind.
void Actors::outlived_by_none(Turn& turn, JobId job, ActorId dead) {
  auto at = outlived_.find(job);
  if (at == outlived_.end() || at->second != dead) return;
  if (std::optional<ActorId> other = any_of(job)) {
    at->second = *other;
    return;
  }
  outlived_.erase(at);
  for (std::uint32_t node : world_.membership.living())
    turn.effects.notice(daemon_of(node), wire::Method::kJobEnded,
                        wire::JobEnded{job, "the last actor that it left behind has ended", {}, {}});
}

void Actors::die(Turn& turn, Actor& actor, ActorDeath death, std::shared_ptr<const ErrorRecord> error) {
  const ActorId id = actor.spec.id;
  if (death.node.empty() && actor.last_node != 0) death.node = world_.membership.node_id(actor.last_node);
  const auto subscribers = actor.told_dead ? Subscribers::kKnowAlready : Subscribers::kTell;
  leave(actor);
  auto at = actors_.find(id);
  std::unique_ptr<Actor> gone = std::move(at->second);
  actors_.erase(at);
  keeping_.ended(turn, gone->spec);
  DeadActor dead{id,
                 gone->spec.job,
                 gone->spec.name,
                 gone->spec.name_space,
                 gone->spec.class_name,
                 gone->light(),
                 std::move(death),
                 std::move(error)};
  buried(turn, std::move(dead), subscribers);
  free_name(turn, *gone);
  release_kept(turn);
}

void Actors::light_died(Turn& turn, ActorId id, ActorDeath death, std::shared_ptr<const ErrorRecord> error) {
  const LightActor light = *light_.find(id);
  if (death.node.empty()) death.node = world_.membership.node_id(light.host.node);
  const Job* job = world_.jobs.find(light.job);
  DeadActor dead{id,
                 light.job,
                 {},
                 job ? job->name_space : "",
                 light_.class_name(light),
                 true,
                 std::move(death),
                 std::move(error)};
  light_.remove(id);
  buried(turn, std::move(dead), Subscribers::kTell);
}

void Actors::buried(Turn& turn, DeadActor dead, Subscribers subscribers) {
  const ActorId id = dead.id;
  const JobId job = dead.job;
  const DeadActor& kept = graveyard_.bury(std::move(dead));
  holds_.forget(id);
  questions_.died(turn, kept, subscribers);
  answer_parked(turn, id);
  outlived_by_none(turn, job, id);
}

}  // namespace troupe::head
