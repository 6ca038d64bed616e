// Model processes: they create, hold, pass on and drop handles, host actors, ask, and remember what they were told.
#include "tests/sim/world.h"

namespace troupe::sim {

using namespace std::chrono_literals;

void World::process_message(Proc& proc, head::Send& send) {
  if (send.kind == wire::FrameKind::kResponse) {
    auto at = proc.pending.find(send.token);
    if (at == proc.pending.end())
      return broken("SI-2: an answer to process " + to_string(proc.id) + " that it did not ask for, or had already");
    Proc::Pending pending = std::move(at->second);
    proc.pending.erase(at);
    if (pending.method == Method::kMonitorActor) {
      auto* death = std::get_if<ActorDeath>(&send.body);
      if (death && death->message.empty()) broken("SI-5: a death without a message");
      if (death && state_.actors().state_of(pending.actor).value_or(wire::ActorState::kDead) != wire::ActorState::kDead)
        broken("SI-5: told the death of a living actor");
    }
    if (pending.done) pending.done(send.body);
    return;
  }
  if (auto* moved = std::get_if<wire::ActorLocation>(&send.body)) {
    auto [at, fresh] = proc.heard.try_emplace(moved->actor, moved->state, moved->restarts);
    if (!fresh) {
      if (at->second.first == wire::ActorState::kDead)
        broken("SI-3: process " + to_string(proc.id) + " hears of actor " + to_string(moved->actor) +
               " after its death");
      if (moved->restarts < at->second.second) broken("SI-3: restarts of actor " + to_string(moved->actor) + " fall");
      at->second = {moved->state, moved->restarts};
    }
  } else if (send.method == Method::kActorHandlesGone) {
    const ActorId id = std::get<wire::ResolveActor>(send.body).actor;
    if (!proc.hosts.contains(id)) return;
    say("process " + to_string(proc.id) + " hears that nobody holds actor " + to_string(id));
    on_node(*node_of(proc.id), [this, process = proc.id, id] {  // it finishes its queue first
      Proc* host = proc_of(process);
      auto hosted = host ? host->hosts.find(id) : std::map<ActorId, Proc::Hosted>::iterator{};
      if (!host || hosted == host->hosts.end()) return;
      notice(*host, Method::kActorExited,
             wire::ActorExited{id, hosted->second.restarts, process, DeathCause::kFinished, "", {}});
      finish_actor(*host, id, DeathCause::kFinished);
    }, queue_.now() + 5 * delay(*node_of(proc.id)));
  } else if (auto* end = std::get_if<wire::EndActor>(&send.body)) {
    if (auto at = proc.hosts.find(end->actor); at != proc.hosts.end()) {
      say("process " + to_string(proc.id) + " is told to end actor " + to_string(end->actor));
      notice(proc, Method::kActorExited,
             wire::ActorExited{end->actor, at->second.restarts, proc.id, DeathCause::kKilled, "", {}});
      finish_actor(proc, end->actor, end->cause);
    }
  }
}

/// The actor has ended in its process: that of a process actor ends with it.
void World::finish_actor(Proc& proc, ActorId actor, DeathCause) {
  auto at = proc.hosts.find(actor);
  const std::int32_t restarts = at->second.restarts;
  if (proc.light_host) {
    proc.hosts.erase(at);
    release(*node_of(proc.id), actor, restarts);
    return;
  }
  kill_proc(proc, "exited with code 0");
}

void World::create_actor(Proc& proc) {
  wire::ActorSpec spec;
  spec.id = {proc.id, proc.next_seq++};
  spec.job = proc.job;
  spec.creator = proc.id;
  spec.class_name = "Model";
  if (random_.chance(0.4)) {
    spec.name = "name" + std::to_string(random_.below(4));
    spec.get_if_exists = random_.chance(0.5);
    if (random_.chance(0.3)) spec.lifetime = Lifetime::kDetached;
  }
  const std::int32_t restarts[] = {0, 0, 1, 3, kNoLimit};
  spec.max_restarts = restarts[random_.below(5)];
  const double cpus[] = {kUnset, 0, 0.5, 1, 2, 7};
  spec.resources.cpus = cpus[random_.below(6)];
  if (random_.chance(0.15)) spec.isolation = Isolation::kLight;
  if (random_.chance(0.2)) spec.scheduling = Spread{};
  if (random_.chance(0.1)) spec.labels.match = {{"zone", random_.chance(0.5) ? "a" : "!a"}};
  if (random_.chance(0.15)) {
    auto at = nodes_.begin();
    std::advance(at, random_.below(static_cast<std::uint32_t>(nodes_.size())));
    spec.scheduling = NodeAffinity{at->second->id, random_.chance(0.5)};
  }
  ActorTruth& truth = actors_[spec.id];
  truth.spec = spec;
  truth.fails_constructor = random_.chance(0.05);
  truth.crashes_constructor = random_.chance(0.1);
  proc.holds.insert(spec.id);
  const bool lookup = spec.get_if_exists;
  if (lookup) ++proc.lookups;
  request(proc, Method::kCreateActor, spec, spec.id,
          [this, process = proc.id, id = spec.id, lookup](const Message& body) {
            Proc* creator = proc_of(process);
            if (!creator) return;
            auto* reply = std::get_if<wire::CreateActorReply>(&body);
            if (!reply || reply->existed) {
              creator->holds.erase(id);  // it never came to be
              std::erase(creator->waiting_drops, id);
            }
            if (reply && reply->existed) creator->holds.insert(reply->handle.actor);
            if (lookup) end_lookup(*creator);
          });
}

/// Light actors, made in a host of this node without asking the head first; the host tells of them later.
void World::create_light(Proc& proc) {
  Node& node = *node_of(proc.id);
  Proc* host = nullptr;
  for (auto& [serial, candidate] : node.procs)
    if (candidate.alive && candidate.light_host && candidate.job == proc.job) host = &candidate;
  if (!host) {
    host = &spawn(node, proc.job, wire::Role::kWorker);
    host->light_host = true;
  }
  wire::LightActors batch;
  batch.process = host->id;
  batch.job = proc.job;
  batch.class_name = "Light";
  for (std::uint32_t i = 0, n = 1 + random_.below(5); i < n; ++i) {
    ActorId id{proc.id, proc.next_seq++};
    actors_[id].light_batch = true;
    actors_[id].spec.job = proc.job;
    host->hosts[id] = {0, true};
    proc.holds.insert(id);
    batch.started.push_back(id);
    say("process " + to_string(proc.id) + " makes light actor " + to_string(id) + " in " + to_string(host->id));
  }
  on_node(node, [this, process = host->id, batch] {
    Proc* teller = proc_of(process);
    if (!teller) return;
    say("process " + to_string(process) + " tells of its light actors");
    notice(*teller, Method::kLightActors, batch);
  }, queue_.now() + 5 * delay(node));
}

void World::look_up(Proc& proc) {
  ++proc.lookups;
  const bool shared = random_.chance(0.7);
  request(proc, Method::kGetNamedActor,
          wire::NamedActor{"name" + std::to_string(random_.below(4)), shared ? "shared" : ""}, {},
          [this, process = proc.id](const Message& body) {
            Proc* asker = proc_of(process);
            if (!asker) return;
            if (auto* reply = std::get_if<wire::NamedActorReply>(&body)) asker->holds.insert(reply->handle.actor);
            end_lookup(*asker);
          });
}

/// A lookup gives a hold for whatever it finds: a drop that overtook its answer would take that hold away.
void World::end_lookup(Proc& proc) {
  if (--proc.lookups != 0) return;
  for (ActorId actor : std::exchange(proc.waiting_drops, {})) send_drop(proc, actor);
}

void World::drop(Proc& proc, ActorId actor) {
  if (proc.pinned.contains(actor)) return;
  if (proc.lookups != 0) proc.waiting_drops.push_back(actor);
  else send_drop(proc, actor);
}

void World::send_drop(Proc& proc, ActorId actor) {
  if (proc.pinned.contains(actor) || proc.holds.erase(actor) == 0) return;
  proc.heard.erase(actor);
  request(proc, Method::kHandleCounts, wire::HandleCounts{proc.id, {}, {actor}}, actor);
}

/// The sender keeps its hold until the receiver's is confirmed by the head.
void World::hand_over(Proc& from, Proc& to, ActorId actor) {
  if (to.holds.contains(actor)) return;
  ++from.pinned[actor];
  Node& node = *node_of(to.id);
  on_node(node, [this, sender = from.id, receiver = to.id, actor] {
    auto unpin = [this, sender, actor] {
      Proc* source = proc_of(sender);
      if (source && --source->pinned[actor] == 0) source->pinned.erase(actor);
    };
    Proc* target = proc_of(receiver);
    if (!target || target->lookups != 0 || !target->holds.insert(actor).second) return unpin();
    request(*target, Method::kHandleCounts, wire::HandleCounts{target->id, {actor}, {}}, actor,
            [unpin](const Message&) { unpin(); });
  }, queue_.now() + delay(node));
}

void World::ask_something(Proc& proc) {
  std::optional<ActorId> actor = random_held(proc);
  const std::uint32_t what = random_.below(6);
  if (what == 0 && actor) {
    request(proc, Method::kMonitorActor, wire::ResolveActor{*actor}, *actor);
  } else if (what <= 2 && actor) {
    request(proc, Method::kResolveActor, wire::ResolveActor{*actor}, *actor);
  } else if (what == 3) {
    const auto kind = static_cast<wire::StateKind>(random_.below(7));
    request(proc, Method::kListState, wire::StateQuery{kind, {}, -1, 0});
  } else if (what == 4) {
    request(proc, Method::kKvPut, wire::KvEntry{"k" + std::to_string(random_.below(5)), "v"});
  } else {
    request(proc, Method::kKvGet, wire::KvKey{"k" + std::to_string(random_.below(5))});
  }
}

}  // namespace troupe::sim
