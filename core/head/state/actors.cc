// Creation, names and placement. Life is in actors_life.cc, death in actors_end.cc, questions in actors_query.cc.
#include "core/wire/handles.h"
#include "core/head/state/actors.h"

#include <algorithm>

namespace troupe::head {
namespace {

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

/// Equal for actors that wait for the same thing: see PlacementQueue.
std::string demand_text(const sched::Request& request, const sched::Asker& asker) {
  std::string text = request.resources.to_string() + "@" + std::to_string(asker.here) + "/" +
                     std::to_string(request.scheduling.index());
  if (const auto* affinity = std::get_if<NodeAffinity>(&request.scheduling))
    text += affinity->node_id + (affinity->soft ? "?" : "!");
  for (const auto& [key, pattern] : request.labels.match)
    text += "/" + std::to_string(key.size()) + key + "=" + pattern;
  return text;
}

}  // namespace

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
  sched::Decision decision = sched::decide(world_.membership.view(), request_of(spec), asker_of(spec));
  if (decision.kind == sched::Decision::Kind::kInfeasible) {
    return error_record(
        ErrorCode::kInfeasible,
        "actor " + spec.class_name + (spec.name.empty() ? "" : " " + quoted(spec.name)) + ": " + decision.reason);
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
  subscribers_.add(caller.process, id);
  turn.effects.respond(caller.process, caller.token, wire::CreateActorReply{wire::handle_of(actor.spec), false});
  enqueue(turn, actor);
  answer_parked(turn, id);
  release(turn, id);
}

bool Actors::take_name(Turn& turn, const Caller& caller, wire::ActorSpec& spec) {
  if (spec.name_space.empty()) {
    const Job* job = world_.jobs.find(spec.job);
    spec.name_space = job ? job->name_space : "default";
  }
  const Name name{spec.name_space, spec.name};
  auto at = names_.find(name);
  if (at == names_.end()) {
    names_.emplace(name, spec.id);
    return true;
  }
  const Actor& holder = *actors_.at(at->second);
  if (holder.ending()) {
    waiting_names_[name].emplace_back(caller, std::move(spec));
    return false;
  } else if (!spec.get_if_exists) {
    std::string text = "an actor named " + quoted(spec.name) + " exists already in namespace " +
                       quoted(spec.name_space) + " (class " + holder.spec.class_name + ", job " +
                       std::to_string(holder.spec.job) + "); set get_if_exists to use it";
    turn.effects.respond(caller.process, caller.token, error_record(ErrorCode::kInvalidArgument, std::move(text)));
  } else if (holder.spec.class_name != spec.class_name) {
    std::string text =
        "the actor named " + quoted(spec.name) + " is a " + holder.spec.class_name + ", not a " + spec.class_name;
    turn.effects.respond(caller.process, caller.token, error_record(ErrorCode::kInvalidArgument, std::move(text)));
  } else if (std::optional<ErrorRecord> other = other_build(world_.jobs.find(spec.job), holder)) {
    turn.effects.respond(caller.process, caller.token, std::move(*other));
  } else {
    holds_.hold(caller.process, holder.spec.id);
    turn.effects.respond(caller.process, caller.token, wire::CreateActorReply{wire::handle_of(holder.spec), true});
  }
  keeping_.refused(turn, spec, caller.process.node);
  return false;
}

/// AC-7
std::optional<ErrorRecord> Actors::other_build(const Job* asker, const Actor& actor) const {
  const Job* made = world_.jobs.find(actor.spec.job);
  if (!asker || !made || asker->registry_digest == made->registry_digest) return std::nullopt;
  return error_record(
      ErrorCode::kUnauthenticated,
      "the actor named " + quoted(actor.spec.name) + " (" + actor.spec.class_name + ") belongs to job " +
          std::to_string(made->id) + ", whose program has other registered functions (digest " +
          made->registry_digest.substr(0, 16) + ") than this one (digest " + asker->registry_digest.substr(0, 16) +
          "): run the same build of the program, or use a namespace of your own");
}

void Actors::free_name(Turn& turn, const Actor& actor) {
  if (actor.spec.name.empty()) return;
  const Name name{actor.spec.name_space, actor.spec.name};
  auto at = names_.find(name);
  if (at == names_.end() || at->second != actor.spec.id) return;
  names_.erase(at);
  auto waiting = waiting_names_.find(name);
  if (waiting == waiting_names_.end()) return;
  auto line = std::move(waiting->second);
  waiting_names_.erase(waiting);
  for (auto& [caller, spec] : line) {
    if (world_.liveness.alive(caller.process)) create(turn, caller, std::move(spec));
    else keeping_.refused(turn, spec, caller.process.node);
  }
  if (auto asked = waiting_lookups_.extract(name))
    for (auto& [caller, request] : asked.mapped())
      if (world_.liveness.alive(caller.process)) get_named(turn, caller, std::move(request));
}

sched::Request Actors::request_of(const wire::ActorSpec& spec) const {
  return {.resources = sched::ResourceSet::from(spec.resources, sched::kActorCpus),
          .scheduling = spec.scheduling,
          .labels = spec.labels,
          .bytes_by_node = {}};
}

sched::Asker Actors::asker_of(const wire::ActorSpec& spec) const {
  return {.here = world_.membership.alive(spec.creator.node) ? spec.creator.node : 0, .last_spread = last_spread_};
}

void Actors::enqueue(Turn& turn, Actor& actor) {
  actor.phase = Phase::kPending;
  actor.node = 0;
  queue_.push(demand_text(request_of(actor.spec), asker_of(actor.spec)), actor.spec.id);
  const sched::ResourceSet need = request_of(actor.spec).resources;
  const auto& nodes = world_.membership.view().nodes();
  bool large_enough =
      std::any_of(nodes.begin(), nodes.end(), [&](const sched::NodeView& node) { return need.fits(node.total); });
  actor.stamp = arm(turn, large_enough ? kWarnBusy : kWarnTooLarge, TimerKind::kWarn, actor.spec.id);
  place_waiting(turn);
}

void Actors::place_waiting(Turn& turn) {
  place_again_ = true;
  if (placing_) return;  // an actor's end during a pass lets others in: the loop below comes round again
  placing_ = true;
  while (std::exchange(place_again_, false)) queue_.pass([&](ActorId id) { return try_place(turn, id); });
  placing_ = false;
}

PlacementQueue::Attempt Actors::try_place(Turn& turn, ActorId id) {
  using Kind = sched::Decision::Kind;
  auto at = actors_.find(id);
  if (at == actors_.end() || at->second->phase != Phase::kPending || at->second->node != 0)
    return PlacementQueue::Attempt::kPlaced;
  Actor& actor = *at->second;
  sched::Decision decision = sched::decide(world_.membership.view(), request_of(actor.spec), asker_of(actor.spec));
  if (decision.kind == Kind::kWait) return PlacementQueue::Attempt::kNoRoom;
  if (decision.kind == Kind::kInfeasible) {
    auto error =
        std::make_shared<ErrorRecord>(error_record(ErrorCode::kInfeasible, called(actor) + ": " + decision.reason));
    die(turn, actor,
        {DeathCause::kNodeDied, "it cannot be placed any more: " + decision.reason, {}, actor.pid, actor.restarts},
        std::move(error));
    return PlacementQueue::Attempt::kPlaced;
  }
  const bool spread = std::holds_alternative<Spread>(actor.spec.scheduling);
  if (start_on(turn, actor, decision.node) && spread) last_spread_ = decision.node;
  return PlacementQueue::Attempt::kPlaced;
}

/// False: it cannot be started any more, and is dead.
bool Actors::start_on(Turn& turn, Actor& actor, std::uint32_t node) {
  wire::StartActor start;
  start.spec = actor.spec;
  start.restarts = actor.restarts;
  if (std::optional<std::string> lost = keeping_.restore(turn, start)) {
    die(turn, actor, {DeathCause::kNodeDied, "it cannot come back: " + *lost, {}, actor.pid, actor.restarts});
    return false;
  }
  actor.phase = Phase::kStarting;
  actor.node = actor.last_node = node;
  actor.process = {};
  actor.stamp = 0;
  world_.membership.debit(node, request_of(actor.spec).resources);
  turn.effects.notice(daemon_of(node), wire::Method::kStartActor, std::move(start));
  return true;
}

void Actors::warn_waiting(Turn& turn, const Actor& actor) {
  const sched::Request request = request_of(actor.spec);
  const sched::Asker asker = asker_of(actor.spec);
  auto [at, fresh] = warned_.try_emplace(demand_text(request, asker), turn.now);
  if (!fresh && turn.now - at->second < kWarnAgain) return;
  at->second = turn.now;
  if (warned_.size() > kDeadActorsKept) warned_.clear();
  sched::Decision decision = sched::decide(world_.membership.view(), request, asker);
  std::string why =
      !decision.reason.empty() ? decision.reason
      : world_.membership.view().nodes().empty()
          ? "the cluster has no node yet"
          : "no node that may run it has " + request.resources.to_string() + " free now; it waits until one has";
  std::string text = called(actor) + " is waiting for a place: " + why;
  turn.effects.warn(text);
  const Job* job = world_.jobs.find(actor.spec.job);
  if (job && job->state == "RUNNING")
    turn.effects.notice(job->driver, wire::Method::kWarning, wire::WarningText{std::move(text)});
}

std::string Actors::called(const Actor& actor) const {
  return "actor " + actor.spec.class_name + (actor.spec.name.empty() ? "" : " " + quoted(actor.spec.name));
}

}  // namespace troupe::head
