#include "core/head/state/actors/actors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/backoff.h"
#include "core/wire/handles.h"

namespace troupe::head {
namespace {

std::string seconds_text(Duration span) {
  if (span == kForever) return "all time";
  return std::to_string(std::chrono::duration<double>(span).count()).substr(0, 6) + " s";
}

/// What was killed before anybody knew it.
DeadActor killed_unknown(ActorId id) {
  return {id, 0, {}, {}, {}, true, {DeathCause::kKilled, "it was killed by kill()", {}, 0, 0}, nullptr};
}

}  // namespace

Actors::Actors(ActorsWorld world)
    : world_(world), names_(world.jobs), placement_(world.membership), keeping_(world.membership, holds_),
      survivors_(actors_, light_), rows_({actors_, light_, graveyard_, world.membership, world.jobs}) {}

// -------------------------------------------------------------------------------------------------- creation and names

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
  if (const Actor* same = actors_.find(spec.id)) {  // asked again: the same answer
    turn.effects.respond(caller.process, caller.token, wire::CreateActorReply{wire::handle_of(same->spec), false});
    return;
  }
  std::optional<ErrorRecord> error = refusal(caller, spec);
  if (const DeadActor* dead = graveyard_.find(spec.id)) error = dead->call_error();  // AC-7
  if (error) {
    refused(turn, spec, caller.process.node);
    turn.effects.respond(caller.process, caller.token, std::move(*error));
    return;
  }
  if (!spec.name.empty() && !take_name(turn, caller, spec)) return;
  const ActorId id = spec.id;
  Actor& actor = actors_.add(std::move(spec));
  begun_.erase(id);
  holds_.created(id);
  keeping_.created(turn, actor.spec, caller.process.node);
  questions_.subscribe(caller.process, id);
  turn.effects.respond(caller.process, caller.token, wire::CreateActorReply{wire::handle_of(actor.spec), false});
  enqueue(turn, actor);
  answer_parked(turn, id);
  release(turn, id);
}

void Actors::refused(Turn& turn, const wire::ActorSpec& spec, std::uint32_t node) {
  begun_.erase(spec.id);
  keeping_.refused(turn, spec, node);
}

bool Actors::take_name(Turn& turn, const Caller& caller, wire::ActorSpec& spec) {
  if (spec.name_space.empty()) spec.name_space = names_.default_name_space(spec.job);
  const ActorName name{spec.name_space, spec.name};
  const std::optional<ActorId> holder_id = names_.holder(name);
  if (!holder_id) return names_.take(name, spec.id);
  const Actor& holder = *actors_.find(*holder_id);
  if (holder.ending()) {
    const ActorId id = spec.id;
    names_.await(caller, std::move(spec));
    answer_parked(turn, id);  // a kill that came first is its end (AC-5)
    return false;
  }
  if (std::optional<ErrorRecord> error = names_.refusal(spec, holder.spec)) {
    turn.effects.respond(caller.process, caller.token, std::move(*error));
  } else {
    holds_.hold(caller.process, holder.spec.id);
    turn.effects.respond(caller.process, caller.token, wire::CreateActorReply{wire::handle_of(holder.spec), true});
  }
  refused(turn, spec, caller.process.node);
  return false;
}

void Actors::free_name(Turn& turn, const Actor& actor) {
  if (actor.spec.name.empty()) return;
  ActorNames::Waiting waiting = names_.release({actor.spec.name_space, actor.spec.name}, actor.spec.id);
  ask_again(turn, std::move(waiting));
}

void Actors::ask_again(Turn& turn, ActorNames::Waiting waiting) {
  for (auto& [caller, spec] : waiting.creations) {
    if (world_.liveness.alive(caller.process)) create(turn, caller, std::move(spec));
    else refused(turn, spec, caller.process.node);
  }
  for (auto& [caller, request] : waiting.look_ups)
    if (world_.liveness.alive(caller.process)) get_named(turn, caller, std::move(request));
}

/// AC-5. What a dead process wanted to create is refused when its name is free.
bool Actors::comes(ActorId id) const {
  return begun_.contains(id) || (world_.liveness.alive(id.maker) && names_.waits(id));
}

/// It was to come, and does not any more: its creation is answered, or will be refused (AC-7). False: it was not.
bool Actors::withdraw(Turn& turn, ActorId id) {
  ActorNames::Waiting waiting = names_.withdraw(id);
  if (begun_.erase(id) == 0 && waiting.creations.empty()) return false;
  buried(turn, killed_unknown(id), Subscribers::kTell);
  ask_again(turn, std::move(waiting));
  return true;
}

void Actors::get_named(Turn& turn, Caller caller, wire::NamedActor request) {
  const Job* job = world_.jobs.of_driver(caller.process);
  if (const auto& hosted = actors_.hosted_by(caller.process); !job && !hosted.empty())
    job = world_.jobs.find(actors_.find(hosted.front())->spec.job);
  if (request.name_space.empty() && job) request.name_space = job->name_space;
  const ActorName name{request.name_space, request.name};
  const std::optional<ActorId> holder = names_.holder(name);
  const Actor* actor = holder ? actors_.find(*holder) : nullptr;
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

// ----------------------------------------------------------------------------------------------------------- placement

void Actors::enqueue(Turn& turn, Actor& actor) {
  actor.phase = Phase::kPending;
  if (actor.waits_since == Time{}) actor.waits_since = turn.now;
  placement_.wait(actor.spec);
  const Time warn_at = actor.waits_since + placement_.warn_after(actor.spec);
  actor.stamp = arm(turn, std::max(warn_at - turn.now, Duration::zero()), TimerKind::kWarn, actor.spec.id);
  place_waiting(turn);
}

void Actors::place_waiting(Turn& turn) {
  placement_.pass([&](ActorId id) { return try_place(turn, id); });
}

ActorPlacement::Attempt Actors::try_place(Turn& turn, ActorId id) {
  using Kind = sched::Decision::Kind;
  Actor* found = actors_.find(id);
  if (!found || found->phase != Phase::kPending || found->node != 0) return ActorPlacement::Attempt::kPlaced;
  Actor& actor = *found;
  sched::Decision decision = placement_.decide(actor.spec, actor.failed_on);
  actor.claims = decision.kind == Kind::kWait;
  if (actor.claims) {
    decision.node = placement_.claim(turn.now, actor.spec, actors_.held(), actor.failed_on);
    if (decision.node == 0) return ActorPlacement::Attempt::kNoRoom;
  }
  if (decision.kind == Kind::kInfeasible) {
    auto error =
        std::make_shared<ErrorRecord>(error_record(ErrorCode::kInfeasible, actor.called() + ": " + decision.reason));
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
  start.image_at = knows_image(actor, node);
  if (std::optional<std::string> lost = keeping_.restore(turn, start)) {
    die(turn, actor, {DeathCause::kNodeDied, "it cannot come back: " + *lost, {}, actor.pid, actor.restarts});
    return;
  }
  actors_.place(actor, node);
  actor.phase = Phase::kStarting;
  if (!actor.claims) actor.stamp = 0;  // it may wait there: that is mentioned, too
  auto& failed_on = actor.failed_on;
  if (std::find(failed_on.begin(), failed_on.end(), node) != failed_on.end()) failed_on.clear();  // AC-9: a new round
  placement_.placed(actor.spec, node);
  turn.effects.notice(daemon_of(node), wire::Method::kStartActor, std::move(start));
}

void Actors::warn_waiting(Turn& turn, const Actor& actor) {
  std::optional<std::string> why = placement_.why_waiting(turn.now, actor.spec);
  if (!why) return;
  warn(turn, actor, actor.called() + " is waiting for a place: " + *why);
}

void Actors::warn_failing(Turn& turn, const Actor& actor, std::uint32_t node, const std::string& why) {
  if (!placement_.mention_failures(turn.now, actor.spec.job, node)) return;
  warn(turn, actor,
       actor.called() + " has not started yet: on node " + world_.membership.node_id(node) + " it failed: " + why +
           "; it is tried again, and on the other nodes that may run it first");
}

void Actors::warn(Turn& turn, const Actor& actor, std::string text) const {
  turn.effects.warn(text);
  const Job* job = world_.jobs.find(actor.spec.job);
  if (job && job->state == "RUNNING")
    turn.effects.notice(job->driver, wire::Method::kWarning, wire::WarningText{std::move(text)});
}

void Actors::on_node_joined(Turn& turn) {
  keeping_.node_joined(turn);
  release_kept(turn);
  place_waiting(turn);
}

// --------------------------------------------------------------------------------------------------------------- start

void Actors::on_placed(Turn& turn, const wire::ActorStarted& report) {
  Actor* actor = actors_.find(report.actor, report.restarts);
  if (!actor || actor->phase != Phase::kStarting || report.process.node != actor->node) return;
  if (!world_.liveness.alive(report.process)) return process_gone(turn, *actor, {});
  job_nodes_.ran(actor->spec.job, actor->node);
  actors_.host(*actor, report.process, report.pid);
}

void Actors::on_started(Turn& turn, const wire::ActorStarted& report) {
  Actor* actor = actors_.find(report.actor, report.restarts);
  bool expected = actor && actor->node == report.process.node &&
                  (actor->process == ProcessId{} || actor->process == report.process);
  if (!world_.liveness.alive(report.process)) {
    // Its death was told before its start: what it started is gone with it.
    if (expected && actor->phase == Phase::kStarting) process_gone(turn, *actor, {});
    return;
  }
  if (expected && actor->phase != Phase::kStarting && actor->process == report.process) return;  // told twice
  if (!expected || actor->phase != Phase::kStarting) return kill_stray(turn, report);
  job_nodes_.ran(actor->spec.job, actor->node);
  actors_.host(*actor, report.process, report.pid);
  actor->phase = Phase::kAlive;
  actor->stamp = 0;
  actor->start_failures = 0;
  actor->failed_on = {};
  actor->waits_since = {};
  if (actor->claims) placement_.claim_kept(actor->node);
  keeping_.started(turn, actor->spec);
  moved(turn, *actor);
  release(turn, report.actor);
}

void Actors::kill_stray(Turn& turn, const wire::ActorStarted& report) {
  const Actor* actor = actors_.find(report.actor);
  const DeadActor* dead = graveyard_.find(report.actor);
  if (!actor && !dead) return;  // nothing is known of it, not even whether it has its process for itself
  bool light = dead ? dead->light : actor->light();
  if (light) {
    turn.effects.notice(
        report.process, wire::Method::kEndActor,
        wire::EndActor{report.actor, DeathCause::kKilled, "another copy of it took its place, or it is dead", false,
                       report.restarts});  // its next life may be in that process by now (HO-10)
    return;
  }
  wire::KillProcess kill{report.process, "it started an actor that is dead or lives elsewhere", DeathCause::kKilled,
                         report.actor};
  turn.effects.notice(daemon_of(report.process.node), wire::Method::kKillActorProcess, std::move(kill));
}

void Actors::on_start_failed(Turn& turn, ProcessId source, const wire::StartActorFailed& report) {
  Actor* actor = actors_.find(report.actor, report.restarts);
  if (!actor || actor->phase != Phase::kStarting || actor->node != source.node) return;
  if (!report.retry_elsewhere) {
    ActorDeath death{DeathCause::kConstructorFailed, report.error.message, {}, actor->pid, actor->restarts};
    die(turn, *actor, std::move(death), std::make_shared<ErrorRecord>(report.error));
    return;
  }
  if (actor->claims && report.error.code == ErrorCode::kInfeasible) {
    const Duration pause = placement_.claim_refused(turn.now, actor->node, world_.random.unit());
    arm(turn, pause, TimerKind::kClaim, report.actor);
    return wait_again(turn, *actor);
  }
  start_refused(turn, *actor, report.error);
}

/// It goes elsewhere, or is tried there again: the node had no room when it was sent there as to one with room, or it
/// has failed (AC-9).
void Actors::start_refused(Turn& turn, Actor& actor, const ErrorRecord& why) {
  const std::uint32_t node = actor.node;
  actors_.leave(actor);
  actor.phase = Phase::kPending;
  if (actor.scoped() && holds_.holders(actor.spec.id) == 0) return release(turn, actor.spec.id);
  const bool no_room = why.code == ErrorCode::kInfeasible;
  if (!no_room) actor.failed_on.push_back(node);
  // The timer of enqueue() is void by now (start_on): failures tell the time themselves.
  if (turn.now - actor.waits_since >= kWarnBusy) {
    if (no_room) warn_waiting(turn, actor);
    else warn_failing(turn, actor, node, why.message);
  }
  // A short pause: the node's own report of what it has left is on its way, and the view is wrong until then.
  const std::uint32_t failures = std::min(actor.start_failures++, 16u);
  Duration pause = backoff_delay({.initial = std::chrono::milliseconds(20), .max = std::chrono::seconds(1)}, failures,
                                 world_.random.unit());
  actor.stamp = arm(turn, pause, TimerKind::kRetry, actor.spec.id);
}

/// AC-9. The driver's daemon, the creator's, one that has run the job: with each failure the next, as the first ones
/// may have ended the job without the head's word.
std::uint32_t Actors::knows_image(const Actor& actor, std::uint32_t for_node) const {
  const Job* job = world_.jobs.find(actor.spec.job);
  std::vector<std::uint32_t> nodes;
  for (const std::uint32_t node : {job ? job->driver.node : 0, actor.spec.creator.node,
                                   job_nodes_.find(actor.spec.job, for_node)}) {
    const bool new_one = std::find(nodes.begin(), nodes.end(), node) == nodes.end();
    if (node != 0 && node != for_node && new_one && world_.membership.alive(node)) nodes.push_back(node);
  }
  return nodes.empty() ? 0 : nodes[actor.start_failures % nodes.size()];
}

/// The node on which it waited has no place for it, or died (AC-8).
void Actors::wait_again(Turn& turn, Actor& actor) {
  actors_.leave(actor);
  actor.phase = Phase::kPending;
  if (actor.scoped() && holds_.holders(actor.spec.id) == 0) release(turn, actor.spec.id);
  else enqueue(turn, actor);
}

// --------------------------------------------------------------------------------------------------- crash and restart

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
  actors_.leave(actor);
  actor.waits_since = {};
  actor.failed_on = {};
  ++actor.restarts;
  actor.phase = Phase::kBackoff;
  actor.revive = false;
  error->message = actor.called() + " died and is being restarted: " + text;
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
  std::erase_if(begun_, [&](ActorId actor) { return actor.maker == died.process; });
  names_.forget_look_ups([&](ProcessId asker) { return asker == died.process; });
  const std::vector<ActorId> held = holds_.drop_all(died.process);
  Crash info{died.out_of_memory ? DeathCause::kOutOfMemory : died.cause, died.reason, died.log_tail};
  // An orderly end of the process is no orderly end of an actor that had not said goodbye.
  if (info.cause == DeathCause::kFinished) info.cause = DeathCause::kCrashed;

  std::vector<ActorId> mine = actors_.hosted_by(died.process);
  if (Actor* starting = died.actor.is_nil() ? nullptr : actors_.find(died.actor, died.actor_restarts);
      starting && starting->phase == Phase::kStarting && starting->process == ProcessId{} &&
      starting->node == died.process.node) {
    if (died.pid != 0) starting->pid = died.pid;
    mine.push_back(died.actor);
  }
  for (ActorId id : mine)
    if (Actor* actor = actors_.find(id)) process_gone(turn, *actor, info);
  host_died(turn, died, info.cause);
  // What the dead one had sent a handle to has yet to be counted: the frame, then the receiver's count, are on their
  // way.
  if (!held.empty()) orphans_.emplace_back(turn.now + kOrphanGrace, held);
}

void Actors::on_node_died(Turn& turn, std::uint32_t node, const std::string& reason) {
  std::set<ProcessId> processes;  // all that the directory knows of on that node, in order
  for (ProcessId process : actors_.hosts_on(node)) processes.insert(process);
  for (ProcessId process : light_.hosts_on(node)) processes.insert(process);
  for (ProcessId process : holds_.processes()) if (process.node == node) processes.insert(process);
  for (ProcessId process : questions_.subscribers()) if (process.node == node) processes.insert(process);
  std::string text = "its node " + world_.membership.node_id(node) + " died: " + reason;
  keeping_.node_died(turn, node);
  release_kept(turn);
  job_nodes_.node_died(node);
  for (ProcessId process : processes) {
    wire::ProcessDied died;
    died.process = process;
    died.cause = DeathCause::kNodeDied;
    died.reason = text;
    on_process_died(turn, died);
  }
  for (ActorId id : actors_.starting_on(node)) {
    Actor* actor = actors_.find(id);
    if (actor && actor->waits_on_its_node()) wait_again(turn, *actor);
    else if (actor) process_gone(turn, *actor, {DeathCause::kNodeDied, text, {}});
  }
  questions_.node_died(node);
  std::erase_if(begun_, [&](ActorId actor) { return actor.maker.node == node; });
  names_.forget_look_ups([&](ProcessId asker) { return asker.node == node; });
  place_waiting(turn);
}

// -------------------------------------------------------------------------------------------- kill, exit, end of a job

void Actors::kill(Turn& turn, Caller caller, wire::KillActor request) {
  if (known(request.actor) == Known::kNo && request.home.host != ProcessId{})
    add_light(turn, request.actor, request.home, false);
  const Known what = known(request.actor);
  if (what == Known::kNo && (request.restart || !withdraw(turn, request.actor)))
    return questions_.park(turn, request.actor, {caller, wire::Method::kKillActor, request.restart});
  if (what == Known::kRecord) begin_kill(turn, *actors_.find(request.actor), request.restart);
  if (what == Known::kLight) {
    end_light(turn, request.actor, DeathCause::kKilled, "killed by kill()");
    light_died(turn, request.actor, {DeathCause::kKilled, "it was killed by kill()", {}, 0, 0});
  }
  // After the news of it: once kill() has returned, the caller's next call finds the actor dead.
  turn.effects.respond(caller.process, caller.token, wire::Empty{});
}

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
  Error error;
  if (report.error) error = std::make_shared<ErrorRecord>(*report.error);
  ActorDeath death{report.cause, report.message, {}, 0, report.restarts};
  if (death.message.empty() && report.error) death.message = report.error->message;
  if (LightActor* light = light_.find(report.actor)) {
    if (light->host == report.process) light_died(turn, report.actor, std::move(death), std::move(error));
    return;
  }
  Actor* found = actors_.find(report.actor);
  if (!found) {
    if (graveyard_.find(report.actor) || !world_.liveness.alive(report.process)) return;
    // A light actor that ended before its creation was told: remembered, so that the late report does not revive it.
    death.node = world_.membership.node_id(report.process.node);
    buried(turn, {report.actor, 0, {}, {}, {}, true, std::move(death), std::move(error)}, Subscribers::kTell);
    return;
  }
  Actor& actor = *found;
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

wire::JobEnded Actors::on_job_ended(Turn& turn, JobId job, const std::string& reason) {
  const std::string text = "its job " + std::to_string(job) + " ended" + (reason.empty() ? "" : ": " + reason);
  JobSurvivors::Staying staying;
  do staying = survivors_.of(job);
  while (end_others(turn, job, staying, text));  // AC-10: what waited for the name of one that ended may be of this job
  survivors_.leave(job, staying);
  if (staying.actors.empty()) job_nodes_.over(job);
  return {.job = job, .reason = reason, .keep_processes = staying.processes, .keep_actors = staying.actors};
}

/// False: there was none to end.
bool Actors::end_others(Turn& turn, JobId job, const JobSurvivors::Staying& staying, const std::string& why) {
  bool any = false;
  for (ActorId id : actors_.of_job(job)) {
    Actor* actor = actors_.find(id);
    if (!actor || staying.stays(id)) continue;
    if (actor->light() && actor->process != ProcessId{} && staying.may_stay(actor->process))
      turn.effects.notice(actor->process, wire::Method::kEndActor, wire::EndActor{id, DeathCause::kJobEnded, why});
    die(turn, *actor, {DeathCause::kJobEnded, why, {}, actor->pid, actor->restarts});
    any = true;
  }
  for (ActorId id : light_.all()) {
    const LightActor* light = light_.find(id);
    if (light->job != job || staying.stays(id)) continue;
    if (staying.may_stay(light->host)) end_light(turn, id, DeathCause::kJobEnded, why);
    light_died(turn, id, {DeathCause::kJobEnded, why, {}, 0, 0});
    any = true;
  }
  return any;
}

// -------------------------------------------------------------------------------------------- handles and what is kept

void Actors::handle_counts(Turn& turn, ProcessId holder, const wire::HandleCounts& counts) {
  for (ActorId id : counts.held)
    if (!graveyard_.find(id)) holds_.hold(holder, id);
  for (ActorId id : counts.begun)
    if (id.maker == holder && known(id) == Known::kNo) begun_.insert(id);
  for (ActorId id : counts.dropped) {
    if (id.maker == holder) begun_.erase(id);
    questions_.unsubscribe(holder, id);
    if (graveyard_.find(id)) continue;  // nobody holds it any more (HC-4)
    if (holds_.drop(holder, id)) release(turn, id);
  }
}

void Actors::release(Turn& turn, ActorId id) {
  if (holds_.holders(id) != 0) return;
  if (LightActor* light = light_.find(id)) {
    if (std::exchange(light->released, true)) return;
    turn.effects.notice(light->host, wire::Method::kActorHandlesGone, wire::ResolveActor{id});
    return;
  }
  Actor* found = actors_.find(id);
  if (!found || !found->scoped() || found->handles_gone) return;
  Actor& actor = *found;
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

/// Handles inside of what is kept no more may have been the last ones.
void Actors::release_kept(Turn& turn) {
  for (ActorId id : keeping_.take_released()) release(turn, id);
}

void Actors::on_checkpoint(Turn& turn, ProcessId source, wire::Checkpoint checkpoint) {
  const Actor* actor = actors_.find(checkpoint.actor, checkpoint.restarts);
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

// -------------------------------------------------------------------------------------------------------- light actors

void Actors::light(Turn& turn, const wire::LightActors& report) {
  const wire::LightHome home{report.process, report.job, report.class_name};
  for (ActorId id : report.started) {
    if (known(id) == Known::kNo) add_light(turn, id, home, true);
    else heard_again(turn, id, report);
  }
  for (ActorId id : report.ended) {
    wire::ActorExited ended;
    ended.actor = id;
    ended.process = report.process;
    on_exited(turn, ended);
  }
}

void Actors::add_light(Turn& turn, ActorId id, const wire::LightHome& home, bool heard) {
  light_.add(id, home.host, home.job, light_.kind_of(home.class_name), heard);
  bool maker_alive = world_.liveness.alive(id.maker);
  holds_.created(id);
  if (!maker_alive) holds_.drop(id.maker, id);
  if (!world_.liveness.alive(home.host))
    light_died(turn, id,
               {DeathCause::kCrashed, "the process that it shared with other light actors had ended", {}, 0, 0});
  else release(turn, id);
  answer_parked(turn, id);
}

/// Its host tells of an actor that others had told of (AC-7). What the host was told of it may have come there before
/// it was constructed, and is said again.
void Actors::heard_again(Turn& turn, ActorId id, const wire::LightActors& report) {
  if (const DeadActor* dead = graveyard_.find(id)) {
    turn.effects.notice(report.process, wire::Method::kEndActor,
                        wire::EndActor{id, dead->death.cause, dead->death.message});
    return;
  }
  LightActor* light = light_.find(id);
  if (!light || light->host != report.process || std::exchange(light->heard, true)) return;
  light->job = report.job;
  if (std::exchange(light->released, false)) release(turn, id);
}

void Actors::end_light(Turn& turn, ActorId id, DeathCause cause, const std::string& why) const {
  const LightActor& light = *light_.find(id);
  turn.effects.notice(light.host, wire::Method::kEndActor, wire::EndActor{id, cause, why, !light.heard});
}

/// The process of light actors is gone, and they with it.
void Actors::host_died(Turn& turn, const wire::ProcessDied& died, DeathCause cause) {
  const std::vector<ActorId> light = light_.in_host(died.process);
  if (light.empty()) return;
  auto error = std::make_shared<ErrorRecord>(error_record(ErrorCode::kActorDied, {}));
  error->context.log_tail = died.log_tail;
  std::string text = "the process that it shared with other light actors ended: " +
                     (died.reason.empty() ? std::string("reason unknown") : died.reason);
  for (ActorId id : light) light_died(turn, id, {cause, text, {}, died.pid, 0}, error);
}

void Actors::light_died(Turn& turn, ActorId id, ActorDeath death, Error error) {
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

bool Actors::hosts_any(ProcessId process) const {
  return !actors_.hosted_by(process).empty() || light_.hosted(process) != 0;
}

// --------------------------------------------------------------------------------------------------------------- death

void Actors::die(Turn& turn, Actor& actor, ActorDeath death, Error error) {
  const ActorId id = actor.spec.id;
  if (death.node.empty() && actor.last_node != 0) death.node = world_.membership.node_id(actor.last_node);
  const auto subscribers = actor.told_dead ? Subscribers::kKnowAlready : Subscribers::kTell;
  const std::unique_ptr<Actor> gone = actors_.remove(id);
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

void Actors::buried(Turn& turn, DeadActor dead, Subscribers subscribers) {
  const ActorId id = dead.id;
  const JobId job = dead.job;
  const DeadActor& kept = graveyard_.bury(std::move(dead));
  holds_.forget(id);
  questions_.died(turn, kept, subscribers);
  answer_parked(turn, id);
  if (!survivors_.last_died(job, id)) return;
  job_nodes_.over(job);
  for (std::uint32_t node : world_.membership.living())
    turn.effects.notice(daemon_of(node), wire::Method::kJobEnded,
                        wire::JobEnded{job, "the last actor that it left behind has ended", {}, {}});
}

// ----------------------------------------------------------------------------------------------------------- questions

Actors::Known Actors::known(ActorId id) const {
  if (actors_.find(id)) return Known::kRecord;
  if (light_.find(id)) return Known::kLight;
  return graveyard_.find(id) ? Known::kDead : Known::kNo;
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
      turn.effects.respond(caller.process, caller.token, actors_.find(id)->location(world_.membership));
      return;
  }
}

void Actors::monitor(Turn& turn, Caller caller, const wire::ResolveActor& request) {
  const ActorId id = request.actor;
  if (known(id) == Known::kNo && request.home.host != ProcessId{}) add_light(turn, id, request.home, false);
  const Known what = known(id);
  if (what == Known::kNo) return questions_.park(turn, id, {caller, wire::Method::kMonitorActor});
  if (what == Known::kDead) turn.effects.respond(caller.process, caller.token, graveyard_.find(id)->death);
  else questions_.monitor(caller, id);
}

void Actors::answer_parked(Turn& turn, ActorId id) {
  for (const ActorQuestions::Question& question : questions_.take(id)) {
    if (question.method == wire::Method::kResolveActor) resolve(turn, question.caller, id);
    else if (question.method == wire::Method::kMonitorActor) monitor(turn, question.caller, {id});
    else kill(turn, question.caller, {id, question.restart});
  }
}

void Actors::moved(Turn& turn, const Actor& actor) {
  if (questions_.has_subscribers(actor.spec.id)) questions_.moved(turn, actor.location(world_.membership));
}

std::optional<wire::ActorState> Actors::state_of(ActorId id) const {
  if (const Actor* actor = actors_.find(id)) return actor->location(world_.membership).state;
  if (light_.find(id)) return wire::ActorState::kAlive;
  return graveyard_.find(id) ? std::optional(wire::ActorState::kDead) : std::nullopt;
}

bool Actors::starts_in_room(ActorId id, std::uint32_t node) const {
  const Actor* actor = actors_.find(id);
  return actor && actor->phase == Phase::kStarting && actor->node == node && !actor->claims;
}

// ---------------------------------------------------------------------------------------------------------------- time

std::uint64_t Actors::arm(Turn& turn, Duration delay, TimerKind kind, ActorId actor) {
  timers_.emplace(turn.now + delay, Timer{kind, actor, ++stamps_});
  return stamps_;
}

void Actors::on_time(Turn& turn) {
  for (; !orphans_.empty() && orphans_.front().first <= turn.now; orphans_.pop_front())
    for (ActorId id : orphans_.front().second) release(turn, id);
  while (!timers_.empty() && timers_.begin()->first <= turn.now) {
    const Timer timer = timers_.begin()->second;
    timers_.erase(timers_.begin());
    expired(turn, timer);
  }
  for (ActorId id : questions_.on_time(turn, [this](ActorId actor) { return comes(actor); }))
    if (!withdraw(turn, id)) buried(turn, killed_unknown(id), Subscribers::kTell);
}

void Actors::expired(Turn& turn, const Timer& timer) {
  if (timer.kind == TimerKind::kClaim) return place_waiting(turn);
  Actor* actor = actors_.find(timer.actor);
  if (!actor || actor->stamp != timer.stamp) return;
  if (timer.kind == TimerKind::kRetry) {
    enqueue(turn, *actor);
  } else if (timer.kind == TimerKind::kWarn) {
    if (actor->phase == Phase::kPending || actor->waits_on_its_node()) warn_waiting(turn, *actor);
  } else if (actor->phase == Phase::kKilling) {
    turn.effects.warn(actor->called() + ": its node did not confirm the end of process " + to_string(actor->process) +
                      " in time");
    process_gone(turn, *actor, {});
  }
}

std::optional<Time> Actors::next_deadline() const {
  std::optional<Time> next = questions_.next_deadline();
  if (!timers_.empty() && (!next || timers_.begin()->first < *next)) next = timers_.begin()->first;
  if (!orphans_.empty() && (!next || orphans_.front().first < *next)) next = orphans_.front().first;
  return next;
}

}  // namespace troupe::head
