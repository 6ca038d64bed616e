// Start, crash and restart of actors, and the death of processes and nodes. What ends an actor for good is in
// actors_end.cc.
#include <algorithm>
#include <set>

#include "core/base/backoff.h"
#include "core/head/state/actors.h"

namespace troupe::head {
namespace {

std::string seconds_text(Duration span) {
  if (span == kForever) return "all time";
  return std::to_string(std::chrono::duration<double>(span).count()).substr(0, 6) + " s";
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------ starting

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
  bool expected = actor && actor->node == report.process.node &&
                  (actor->process == ProcessId{} || actor->process == report.process);
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
  keeping_.started(turn, actor->spec);
  moved(turn, *actor);
  release(turn, report.actor);
}

void Actors::kill_stray(Turn& turn, const wire::ActorStarted& report) {
  auto at = actors_.find(report.actor);
  const DeadActor* dead = graveyard_.find(report.actor);
  if (at == actors_.end() && !dead) return;  // nothing is known of it, not even whether it has its process for itself
  bool light = dead ? dead->light : at->second->light();
  if (light) {
    turn.effects.notice(
        report.process, wire::Method::kEndActor,
        wire::EndActor{report.actor, DeathCause::kKilled, "another copy of it took its place, or it is dead"});
    return;
  }
  wire::KillProcess kill{report.process, "it started an actor that is dead or lives elsewhere", DeathCause::kKilled,
                         report.actor};
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
  const std::uint32_t failures = std::min(actor->start_failures++, 16u);
  Duration pause = backoff_delay({.initial = std::chrono::milliseconds(20), .max = std::chrono::seconds(1)}, failures,
                                 world_.random.unit());
  actor->stamp = arm(turn, pause, TimerKind::kRetry, report.actor);
}

void Actors::on_checkpoint(Turn& turn, ProcessId source, wire::Checkpoint checkpoint) {
  const Actor* actor = current(checkpoint.actor, checkpoint.restarts);
  if (!actor || actor->process != source || actor->spec.max_restarts == 0)
    return keeping_.stale(turn, checkpoint, source.node);
  keeping_.checkpoint(turn, std::move(checkpoint), source.node);
  release_kept(turn);
}

bool Actors::on_answer(Turn& turn, std::uint32_t node, std::uint64_t token, const Message& body) {
  if (!keeping_.answered(turn, node, token, body)) return false;
  release_kept(turn);
  return true;
}

void Actors::on_node_joined(Turn& turn) {
  keeping_.node_joined(turn);
  release_kept(turn);
  place_waiting(turn);
}

/// Handles inside of what is kept no more may have been the last ones.
void Actors::release_kept(Turn& turn) {
  for (ActorId id : keeping_.take_released()) release(turn, id);
}

// ------------------------------------------------------------------------------------------------------------ crashing

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
      text += " (restarted " + std::to_string(actor.history.in_window()) + " times within " +
              seconds_text(rule.window) + ", max_restarts = " + std::to_string(rule.max_restarts) + ")";
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
  questions_.process_died(died.process);
  names_.forget_look_ups([&](ProcessId asker) { return asker == died.process; });
  const std::vector<ActorId> held = holds_.drop_all(died.process);
  Crash info{died.out_of_memory ? DeathCause::kOutOfMemory : died.cause, died.reason, died.log_tail};
  // An orderly end of the process is no orderly end of an actor that had not said goodbye.
  if (info.cause == DeathCause::kFinished) info.cause = DeathCause::kCrashed;

  std::vector<ActorId> mine;
  if (auto at = hosted_.find(died.process); at != hosted_.end()) mine = at->second;
  if (Actor* starting = died.actor.is_nil() ? nullptr : current(died.actor, died.actor_restarts);
      starting && starting->phase == Phase::kStarting && starting->process == ProcessId{} &&
      starting->node == died.process.node) {
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
    std::string text = "the process that it shared with other light actors ended: " +
                       (died.reason.empty() ? std::string("reason unknown") : died.reason);
    for (ActorId id : light) light_died(turn, id, {info.cause, text, {}, died.pid, 0}, error);
  }
  // What the dead one had sent a handle to has yet to be counted: the frame, then the receiver's count, are on their
  // way.
  if (!held.empty()) orphans_.emplace_back(turn.now + kOrphanGrace, held);
}

void Actors::on_node_died(Turn& turn, std::uint32_t node, const std::string& reason) {
  std::set<ProcessId> processes;  // all that the directory knows of on that node, in order
  for (const auto& [process, actors] : hosted_) if (process.node == node) processes.insert(process);
  for (ProcessId process : light_.hosts_on(node)) processes.insert(process);
  for (ProcessId process : holds_.processes()) if (process.node == node) processes.insert(process);
  for (ProcessId process : questions_.subscribers()) if (process.node == node) processes.insert(process);
  std::string text = "its node " + world_.membership.node_id(node) + " died: " + reason;
  keeping_.node_died(turn, node);
  release_kept(turn);
  for (ProcessId process : processes) {
    wire::ProcessDied died;
    died.process = process;
    died.cause = DeathCause::kNodeDied;
    died.reason = text;
    on_process_died(turn, died);
  }
  std::vector<ActorId> starting;
  for (const auto& [id, actor] : actors_)
    if (actor->phase == Phase::kStarting && actor->node == node) starting.push_back(id);
  std::sort(starting.begin(), starting.end());
  for (ActorId id : starting) {
    if (auto at = actors_.find(id); at != actors_.end())
      process_gone(turn, *at->second, {DeathCause::kNodeDied, text, {}});
  }
  questions_.node_died(node);
  names_.forget_look_ups([&](ProcessId asker) { return asker.node == node; });
  place_waiting(turn);
}

}  // namespace troupe::head
