// Start, crash, restart, kill and death of actors: the transitions of actors.h.
#include <algorithm>
#include <set>

#include "core/head/actors.h"

namespace troupe::head {
namespace {

std::string seconds_text(Duration span) {
  if (span == kForever) return "all time";
  return std::to_string(std::chrono::duration<double>(span).count()).substr(0, 6) + " s";
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------- starting

Actors::Actor* Actors::current(ActorId id, std::int32_t restarts) {
  auto at = actors_.find(id);
  return at != actors_.end() && at->second->restarts == restarts ? at->second.get() : nullptr;
}

void Actors::host(Actor& actor, ProcessId process, std::int32_t pid) {
  if (actor.process != process) {
    actor.process = process;
    hosted_[process].push_back(actor.spec.id);
  }
  if (pid != 0) actor.pid = pid;
}

void Actors::leave(Actor& actor) {
  auto at = hosted_.find(actor.process);
  if (at != hosted_.end()) {
    std::erase(at->second, actor.spec.id);
    if (at->second.empty()) hosted_.erase(at);
  }
  actor.process = {};
  actor.node = 0;
}

void Actors::on_placed(Turn& turn, const wire::ActorStarted& report) {
  Actor* actor = current(report.actor, report.restarts);
  if (!actor || actor->phase != Phase::kStarting || report.process.node != actor->node) return;
  if (world_.liveness.alive(report.process)) host(*actor, report.process, report.pid);
  else process_gone(turn, *actor, {});
}

void Actors::on_started(Turn& turn, const wire::ActorStarted& report) {
  Actor* actor = current(report.actor, report.restarts);
  bool expected = actor && actor->node == report.process.node && (actor->process == ProcessId{} || actor->process == report.process);
  if (!world_.liveness.alive(report.process)) {
    // Its death was told before its start: what it started is gone with it.
    if (expected && actor->phase == Phase::kStarting) process_gone(turn, *actor, {});
    return;
  }
  if (expected && actor->phase != Phase::kStarting && actor->process == report.process) return;  // told twice
  if (!expected || actor->phase != Phase::kStarting) return kill_stray(turn, report);
  host(*actor, report.process, report.pid);
  actor->phase = Phase::kAlive;
  actor->start_failures = 0;
  moved(turn, *actor);
  release(turn, report.actor);
}

void Actors::kill_stray(Turn& turn, const wire::ActorStarted& report) {
  auto at = actors_.find(report.actor);
  const DeadActor* dead = graveyard_.find(report.actor);
  if (at == actors_.end() && !dead) return;  // nothing is known of it, not even whether it has its process for itself
  bool light = dead ? dead->light : at->second->light();
  if (light) {
    turn.effects.notice(report.process, wire::Method::kEndActor, wire::EndActor{report.actor, DeathCause::kKilled, "another copy of it took its place, or it is dead"});
    return;
  }
  wire::KillProcess kill{report.process, "it started an actor that is dead or lives elsewhere", DeathCause::kKilled, report.actor};
  turn.effects.notice(daemon_of(report.process.node), wire::Method::kKillActorProcess, std::move(kill));
}

void Actors::on_start_failed(Turn& turn, ProcessId source, const wire::StartActorFailed& report) {
  Actor* actor = current(report.actor, report.restarts);
  if (!actor || actor->phase != Phase::kStarting || actor->node != source.node) return;
  if (!report.retry_elsewhere) {
    ActorDeath death{DeathCause::kConstructorFailed, report.error.message, {}, actor->pid, actor->restarts};
    die(turn, *actor, std::move(death), std::make_shared<ErrorRecord>(report.error));
    return;
  }
  leave(*actor);
  actor->phase = Phase::kPending;
  if (actor->scoped() && holds_.holders(report.actor) == 0) return release(turn, report.actor);
  // A short pause: the node's own report of what it has left is on its way, and the view is wrong until then.
  Duration pause = backoff_delay({.initial = std::chrono::milliseconds(20), .max = std::chrono::seconds(1)}, static_cast<int>(std::min(actor->start_failures++, 16u)), world_.random);
  actor->stamp = arm(turn, pause, TimerKind::kRetry, report.actor);
}

void Actors::on_checkpoint(ProcessId source, wire::Checkpoint checkpoint) {
  Actor* actor = current(checkpoint.actor, checkpoint.restarts);
  if (!actor || actor->process != source) return;
  bool newer = !actor->checkpoint || checkpoint.restarts > actor->checkpoint->restarts || checkpoint.number > actor->checkpoint->number;
  if (newer) actor->checkpoint = std::make_unique<wire::Checkpoint>(std::move(checkpoint));
}

// -------------------------------------------------------------------------------------------------------------- crashing

std::string Actors::crash_text(const Actor& actor, const Crash& crash) const {
  std::string text = crash.reason.empty() ? cause_text(crash.cause) : crash.reason;
  if (crash.cause != DeathCause::kNodeDied && !crash.reason.empty()) text = "its process ended: " + text;
  if (actor.phase == Phase::kStarting) text = "while the constructor of " + actor.spec.class_name + " ran, " + text;
  return text;
}

void Actors::process_gone(Turn& turn, Actor& actor, const Crash& crash_info) {
  if (actor.phase == Phase::kKilling && !actor.revive) {
    die(turn, actor, {DeathCause::kKilled, "it was killed by kill()", {}, actor.pid, actor.restarts});
  } else if (actor.phase == Phase::kKilling) {
    crash(turn, actor, {DeathCause::kKilled, "killed by kill() with restart", crash_info.log_tail});
  } else if (actor.phase == Phase::kAlive || actor.phase == Phase::kStarting) {
    crash(turn, actor, crash_info);
  }
}

void Actors::crash(Turn& turn, Actor& actor, const Crash& crash_info) {
  const ActorId id = actor.spec.id;
  std::string text = crash_text(actor, crash_info);
  bool wanted = !actor.handles_gone && !(actor.scoped() && holds_.holders(id) == 0);
  RestartRule rule{actor.spec.max_restarts, actor.spec.restart_window, actor.spec.restart_backoff};
  std::optional<Duration> delay;
  if (wanted) delay = actor.history.on_crash(turn.now, rule, world_.random);
  auto error = std::make_shared<ErrorRecord>(error_record(ErrorCode::kActorDied, {}));
  error->context.log_tail = crash_info.log_tail;
  if (!delay) {
    if (wanted && rule.max_restarts > 0) {
      text += " (restarted " + std::to_string(actor.history.in_window()) + " times within " + seconds_text(rule.window) +
              ", max_restarts = " + std::to_string(rule.max_restarts) + ")";
    }
    die(turn, actor, {crash_info.cause, std::move(text), {}, actor.pid, actor.restarts}, std::move(error));
    return;
  }
  leave(actor);
  ++actor.restarts;
  actor.phase = Phase::kBackoff;
  actor.revive = false;
  error->message = called(actor) + " died and is being restarted: " + text;
  error->outcome = Outcome::kUnknown;
  error->context.actor_id = to_string(id);
  error->context.node = world_.membership.node_id(actor.last_node);
  error->context.pid = actor.pid;
  error->context.attempt = actor.restarts - 1;
  actor.last_error = std::make_unique<ErrorRecord>(std::move(*error));
  actor.stamp = arm(turn, *delay, TimerKind::kRetry, id);
  turn.effects.log(actor.last_error->message);
  moved(turn, actor);
}

void Actors::on_process_died(Turn& turn, const wire::ProcessDied& died) {
  subscribers_.remove_process(died.process);
  for (auto at = monitors_.begin(); at != monitors_.end();) {
    std::erase_if(at->second, [&](const Caller& caller) { return caller.process == died.process; });
    at = at->second.empty() ? monitors_.erase(at) : std::next(at);
  }
  const std::vector<ActorId> held = holds_.drop_all(died.process);
  Crash info{died.out_of_memory ? DeathCause::kOutOfMemory : died.cause, died.reason, died.log_tail};
  // An orderly end of the process is no orderly end of an actor that had not said goodbye.
  if (info.cause == DeathCause::kFinished) info.cause = DeathCause::kCrashed;

  std::vector<ActorId> mine;
  if (auto at = hosted_.find(died.process); at != hosted_.end()) mine = at->second;
  if (Actor* starting = died.actor.is_nil() ? nullptr : current(died.actor, died.actor_restarts);
      starting && starting->phase == Phase::kStarting && starting->process == ProcessId{} && starting->node == died.process.node) {
    if (died.pid != 0) starting->pid = died.pid;
    mine.push_back(died.actor);
  }
  for (ActorId id : mine) {
    if (auto at = actors_.find(id); at != actors_.end()) process_gone(turn, *at->second, info);
  }
  const std::vector<ActorId> light = light_.in_host(died.process);
  if (!light.empty()) {
    auto error = std::make_shared<ErrorRecord>(error_record(ErrorCode::kActorDied, {}));
    error->context.log_tail = died.log_tail;
    std::string text = "the process that it shared with other light actors ended: " + (died.reason.empty() ? std::string("reason unknown") : died.reason);
    for (ActorId id : light) light_died(turn, id, {info.cause, text, {}, died.pid, 0}, error);
  }
  // What the dead one had sent a handle to has yet to be counted: the frame, then the receiver's count, are on their way.
  if (!held.empty()) orphans_.emplace_back(turn.now + kOrphanGrace, held);
}

void Actors::on_node_died(Turn& turn, std::uint32_t node, const std::string& reason) {
  std::set<ProcessId> processes;  // all that the directory knows of on that node, in order
  for (const auto& [process, actors] : hosted_) if (process.node == node) processes.insert(process);
  for (ProcessId process : light_.hosts_on(node)) processes.insert(process);
  for (ProcessId process : holds_.processes()) if (process.node == node) processes.insert(process);
  for (ProcessId process : subscribers_.processes()) if (process.node == node) processes.insert(process);
  std::string text = "its node " + world_.membership.node_id(node) + " died: " + reason;
  for (ProcessId process : processes) {
    wire::ProcessDied died;
    died.process = process;
    died.cause = DeathCause::kNodeDied;
    died.reason = text;
    on_process_died(turn, died);
  }
  std::vector<ActorId> starting;
  for (const auto& [id, actor] : actors_) if (actor->phase == Phase::kStarting && actor->node == node) starting.push_back(id);
  std::sort(starting.begin(), starting.end());
  for (ActorId id : starting) {
    if (auto at = actors_.find(id); at != actors_.end()) process_gone(turn, *at->second, {DeathCause::kNodeDied, text, {}});
  }
  for (auto& [id, callers] : monitors_) std::erase_if(callers, [&](const Caller& caller) { return caller.process.node == node; });
  place_waiting(turn);
}

// ---------------------------------------------------------------------------------------------------------------- ending

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
    turn.effects.notice(daemon_of(actor.node), wire::Method::kKillActorProcess, wire::KillProcess{target, reason, DeathCause::kKilled, id});
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
    buried(turn, {report.actor, 0, {}, {}, {}, true, std::move(death), std::move(error)}, true);
    return;
  }
  Actor& actor = *at->second;
  bool runs = actor.phase == Phase::kAlive || actor.phase == Phase::kStarting || actor.phase == Phase::kKilling;
  if (!runs || actor.restarts != report.restarts || actor.node != report.process.node) return;
  if (actor.process != ProcessId{} && actor.process != report.process) return;
  if (actor.phase == Phase::kKilling) return process_gone(turn, actor, {});
  if (report.cause == DeathCause::kCrashed || report.cause == DeathCause::kOutOfMemory) return crash(turn, actor, {report.cause, report.message, {}});
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
      if (hosts.contains(id.maker) && light_.find(id)->job == job && kept.insert(id).second) hosts.insert(light_.find(id)->host);
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
  std::set<std::uint32_t> unsure;  // nodes where a light actor that stays is starting, in a host that we do not know yet
  for (ActorId id : kept) {
    auto at = actors_.find(id);
    if (at != actors_.end() && at->second->light() && at->second->phase == Phase::kStarting) unsure.insert(at->second->node);
  }
  auto host_stays = [&](ProcessId process) {
    return unsure.contains(process.node) || std::binary_search(ended.keep_processes.begin(), ended.keep_processes.end(), process);
  };
  std::string text = "its job " + std::to_string(job) + " ended" + (reason.empty() ? "" : ": " + reason);
  auto end_in_place = [&](ActorId id, ProcessId host) {
    if (host_stays(host)) turn.effects.notice(host, wire::Method::kEndActor, wire::EndActor{id, DeathCause::kJobEnded, text});
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
    turn.effects.notice(daemon_of(node), wire::Method::kJobEnded, wire::JobEnded{job, "the last actor that it left behind has ended", {}, {}});
}

void Actors::die(Turn& turn, Actor& actor, ActorDeath death, std::shared_ptr<const ErrorRecord> error) {
  const ActorId id = actor.spec.id;
  if (death.node.empty() && actor.last_node != 0) death.node = world_.membership.node_id(actor.last_node);
  bool tell = !actor.told_dead;
  leave(actor);
  auto at = actors_.find(id);
  std::unique_ptr<Actor> gone = std::move(at->second);
  actors_.erase(at);
  DeadActor dead{id, gone->spec.job, gone->spec.name, gone->spec.name_space, gone->spec.class_name, gone->light(), std::move(death), std::move(error)};
  buried(turn, std::move(dead), tell);
  free_name(turn, *gone);
}

void Actors::light_died(Turn& turn, ActorId id, ActorDeath death, std::shared_ptr<const ErrorRecord> error) {
  const LightActor light = *light_.find(id);
  if (death.node.empty()) death.node = world_.membership.node_id(light.host.node);
  const Job* job = world_.jobs.find(light.job);
  DeadActor dead{id, light.job, {}, job ? job->name_space : "", light_.class_name(light), true, std::move(death), std::move(error)};
  light_.remove(id);
  buried(turn, std::move(dead), true);
}

void Actors::buried(Turn& turn, DeadActor dead, bool tell) {
  const ActorId id = dead.id;
  const JobId job = dead.job;
  const DeadActor& kept = graveyard_.bury(std::move(dead));
  holds_.forget(id);
  if (tell) {
    for (ProcessId subscriber : subscribers_.of(id)) {
      turn.effects.notice(subscriber, wire::Method::kActorMoved, wire::ActorLocation{id, wire::ActorState::kDead, {}, kept.death.restarts, kept.call_error()});
    }
  }
  subscribers_.remove_actor(id);
  if (auto at = monitors_.find(id); at != monitors_.end()) {
    for (const Caller& caller : at->second) turn.effects.respond(caller.process, caller.token, kept.death);
    monitors_.erase(at);
  }
  answer_parked(turn, id);
  outlived_by_none(turn, job, id);
}

}  // namespace troupe::head
