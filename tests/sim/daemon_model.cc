// Model daemons: they account for resources, start and end processes, and report. As much of a node as the head can
// see.
#include "tests/sim/world.h"

namespace troupe::sim {

using namespace std::chrono_literals;

void World::join_node() {
  auto node = std::make_unique<Node>();
  node->link = next_link_++;
  node->slowness = random_.chance(0.2) ? 1 + 40 * random_.unit() : 1 + random_.unit();
  wire::RegisterNode request;
  const double cpus = 1 + random_.below(6);
  request.info.resources = {{"CPU", cpus}};
  node->account = sched::ResourceAccount(sched::ResourceSet::from_map(request.info.resources));
  if (random_.chance(0.5)) request.info.labels = node->labels = {{"zone", random_.chance(0.5) ? "a" : "b"}};
  links_[node->link] = node.get();
  Node& kept = *node;
  joining_.push_back(std::move(node));
  queue_.after(delay(kept), [this, &kept, request] {
    apply(Frame{kept.link, wire::FrameKind::kRequest, {}, 1, Method::kRegisterNode, false, request});
  });
}

void World::daemon_notice(Node& node, Method method, Message body) {
  to_head(node, Frame{0, wire::FrameKind::kNotice, daemon_of(node.number), 0, method, false, std::move(body)});
}

void World::daemon_message(Node& node, head::Send& send) {
  if (node.fenced) return;
  auto respond = [&](Message body) {
    to_head(node, Frame{0, wire::FrameKind::kResponse, daemon_of(node.number), send.token, {}, false, std::move(body)});
  };
  if (auto* reply = std::get_if<wire::RegisterNodeReply>(&send.body)) {
    node.registered = true;
    node.id = reply->node_id;
    say("node " + std::to_string(node.number) + " is up, " + node.account.total().to_string());
    plan_load(node);
    if (random_.chance(0.7) || node.number == 1) start_driver(node);
  } else if (send.kind == wire::FrameKind::kResponse) {
    if (auto* job = std::get_if<wire::RegisterJobReply>(&send.body)) {
      jobs_[job->job] = true;
      if (Proc* driver = proc_of({node.number, static_cast<std::uint32_t>(send.token)})) driver->job = job->job;
    }
  } else if (send.method == Method::kPing) {
    respond(wire::Empty{});
  } else if (send.method == Method::kQueryState) {
    if (random_.chance(0.9)) respond(wire::StateReply{{{{"worker_id", "w"}}}, {}});
  } else if (auto* view = std::get_if<wire::ClusterView>(&send.body)) {
    node.view.apply(*view);
  } else if (auto* start = std::get_if<wire::StartActor>(&send.body)) {
    start_actor(node, *start);
  } else if (auto* kill = std::get_if<wire::KillProcess>(&send.body)) {
    for (auto& [serial, proc] : node.procs) {
      bool meant =
          kill->process.serial != 0 ? proc.id == kill->process : proc.hosts.contains(kill->actor) && !proc.light_host;
      if (proc.alive && meant) kill_proc(proc, "killed by SIGKILL (9)", DeathCause::kKilled);
    }
    const ActorId meant = kill->actor;
    if (kill->process.serial == 0) std::erase_if(node.waiting, [&](auto& one) { return one.first.first == meant; });
  } else if (auto* ended = std::get_if<wire::JobEnded>(&send.body)) {
    jobs_[ended->job] = false;
    std::set<ProcessId> keep(ended->keep_processes.begin(), ended->keep_processes.end());
    std::set<ActorId> keep_actors(ended->keep_actors.begin(), ended->keep_actors.end());
    for (auto& [serial, proc] : node.procs) {
      bool hosts_kept = false;
      for (const auto& [actor, hosted] : proc.hosts) hosts_kept = hosts_kept || keep_actors.contains(actor);
      if (proc.alive && proc.job == ended->job && !keep.contains(proc.id) && !hosts_kept)
        kill_proc(proc, "ended with its job", DeathCause::kJobEnded);
    }
    std::erase_if(node.waiting, [&](auto& one) {
      return one.second.spec.job == ended->job && !keep_actors.contains(one.first.first);
    });
  }
}

void World::start_actor(Node& node, wire::StartActor start) {
  ++node.starts_seen;
  plan_load(node);
  const ActorId id = start.spec.id;
  const auto need = sched::ResourceSet::from(start.spec.resources, sched::kActorCpus);
  say("node " + std::to_string(node.number) + " starts actor " + to_string(id) + " restart " +
      std::to_string(start.restarts));
  if (!node.account.try_grant(need)) {
    if (!tasks_ && state_.actors().starts_in_room(id, node.number))
      broken("SI-4: node " + std::to_string(node.number) + " was sent actor " + to_string(id) + " that needs " +
             need.to_string() + " with " + node.account.available().to_string() + " left");
    const std::pair key{id, start.restarts};
    node.waiting[key] = std::move(start);
    on_node(node, [this, &node, key] {
      if (!node.waiting.erase(key) || node.fenced) return;
      const ErrorRecord no_room = head::error_record(ErrorCode::kInfeasible, "no room");
      daemon_notice(node, Method::kStartActorFailed, wire::StartActorFailed{key.first, key.second, no_room, true});
    }, queue_.now() + (tasks_ ? 2s : 0s));
    return;
  }
  place_actor(node, start);
}

void World::let_in(Node& node) {
  if (node.fenced) return;
  for (auto at = node.waiting.begin(); at != node.waiting.end();) {
    if (!node.account.try_grant(sched::ResourceSet::from(at->second.spec.resources, sched::kActorCpus))) {
      ++at;
      continue;
    }
    const wire::StartActor start = std::move(at->second);
    at = node.waiting.erase(at);
    plan_load(node);
    place_actor(node, start);
  }
}

/// Its resources are its own already.
void World::place_actor(Node& node, const wire::StartActor& start) {
  const ActorId id = start.spec.id;
  node.taken[{id, start.restarts}] = sched::ResourceSet::from(start.spec.resources, sched::kActorCpus);
  Proc* host = nullptr;
  if (start.spec.isolation == Isolation::kLight) {
    for (auto& [serial, proc] : node.procs)
      if (proc.alive && proc.light_host && proc.job == start.spec.job) host = &proc;
  }
  if (!host) {
    host = &spawn(node, start.spec.job, wire::Role::kWorker);
    host->light_host = start.spec.isolation == Isolation::kLight;
  }
  host->hosts[id] = {start.restarts, false};
  if (places_ || host->light_host)
    daemon_notice(node, Method::kActorPlaced, wire::ActorStarted{id, start.restarts, host->id, 1});
  on_node(
      node, [this, process = host->id, id, restarts = start.restarts] { construct(process, id, restarts); },
      queue_.now() + 10 * delay(node));
}

void World::construct(ProcessId process, ActorId id, std::int32_t restarts) {
  Proc* proc = proc_of(process);
  if (!proc || !proc->hosts.contains(id) || proc->hosts.at(id).restarts != restarts) return;
  const ActorTruth& truth = actors_.at(id);
  if (truth.crashes_constructor && busy_ && random_.chance(0.7)) return kill_proc(*proc, "killed by SIGABRT (6)");
  if (truth.fails_constructor) {
    notice(*proc, Method::kActorExited,
           wire::ActorExited{id, restarts, process, DeathCause::kConstructorFailed, "",
                             head::error_record(ErrorCode::kTask, "threw")});
    return finish_actor(*proc, id, DeathCause::kConstructorFailed);
  }
  proc->hosts.at(id).constructed = true;
  notice(*proc, Method::kActorStarted, wire::ActorStarted{id, restarts, process, 1});
}

void World::plan_load(Node& node) {
  if (node.load_planned) return;
  node.load_planned = true;
  on_node(node, [this, &node] {
    node.load_planned = false;
    if (node.fenced) return;
    wire::NodeLoad load;
    load.node = node.number;
    load.version = ++node.load_version;
    for (const auto& [name, amount] : node.account.available().to_map()) load.available[name] = amount;
    load.starts_seen = node.starts_seen;
    if (planted("false-load")) load.available = node.account.total().to_map();
    if (planted("lost-load") && random_.chance(0.5)) return;
    daemon_notice(node, Method::kNodeLoad, load);
  }, queue_.now() + 2ms);
}

Proc& World::spawn(Node& node, JobId job, wire::Role role) {
  Proc& proc = node.procs[node.next_serial];
  proc.id = {node.number, node.next_serial++};
  proc.job = job;
  proc.role = role;
  return proc;
}

void World::release(Node& node, ActorId actor, std::int32_t restarts) {
  auto at = node.taken.find({actor, restarts});
  if (at == node.taken.end()) return;
  node.account.give_back(at->second);
  node.taken.erase(at);
  plan_load(node);
  let_in(node);
}

void World::kill_proc(Proc& proc, const std::string& reason, DeathCause cause) {
  if (!proc.alive) return;
  say("process " + to_string(proc.id) + " " + reason);
  proc.alive = false;
  Node& node = *node_of(proc.id);
  wire::ProcessDied died;
  died.process = proc.id;
  died.role = proc.role;
  died.job = proc.job;
  died.pid = 1;
  died.reason = reason;
  died.cause = cause;
  if (!proc.light_host && !proc.hosts.empty()) {
    died.actor = proc.hosts.begin()->first;
    died.actor_restarts = proc.hosts.begin()->second.restarts;
  }
  for (const auto& [actor, hosted] : proc.hosts) release(node, actor, hosted.restarts);
  proc.pending.clear();
  // DA-1: what it said before is delivered first.
  Time& daemons = last_delivery_[{daemon_of(node.number), kHead}];
  daemons = std::max(daemons, last_delivery_[{proc.id, kHead}]);
  daemon_notice(node, Method::kProcessDied, died);
}

void World::kill_node(Node& node) {
  say("node " + std::to_string(node.number) + " is killed");
  node.alive = false;
  for (auto& [serial, proc] : node.procs) proc.alive = false;
  const LinkId link = node.link;
  queue_.after(delay(node), [this, link] {
    if (links_.erase(link) != 0) apply(head::LinkClosed{link});
  });
}

void World::freeze(Node& node, Duration span) {
  say("node " + std::to_string(node.number) + " is frozen");
  node.frozen = true;
  queue_.after(span, [this, &node] {
    if (!node.alive) return;
    say("node " + std::to_string(node.number) + " thaws");
    node.frozen = false;
    while (!node.thaw.empty() && node.alive && !node.frozen) {
      auto work = std::move(node.thaw.front());
      node.thaw.pop_front();
      work();
    }
  });
}

/// The head closed the link: the node was declared dead and must end.
void World::fence(Node& node) {
  if (node.fenced) return;
  node.fenced = true;
  say("node " + std::to_string(node.number) + " is fenced and ends");
  for (auto& [serial, proc] : node.procs) proc.alive = false;
  node.alive = false;
}

void World::start_driver(Node& node) {
  Proc& driver = spawn(node, 0, wire::Role::kDriver);
  wire::RegisterJob request;
  request.driver = driver.id;
  request.driver_pid = 1;
  request.name_space = random_.chance(0.6) ? "shared" : "";
  to_head(node, Frame{0, wire::FrameKind::kRequest, daemon_of(node.number), driver.id.serial, Method::kRegisterJob,
                      false, request});
}

}  // namespace troupe::sim
