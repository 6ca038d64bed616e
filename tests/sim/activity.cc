// What happens in a run: work and faults by chance, then rest.
#include "tests/sim/world.h"

namespace troupe::sim {

using namespace std::chrono_literals;

const std::vector<std::string>& plants() {
  static const std::vector<std::string> names{"lost-answer", "double-answer", "lost-drop",
                                              "false-load",  "lost-load",     "false-death"};
  return names;
}

namespace {
head::StateOptions head_options(std::uint64_t seed) {
  head::StateOptions options;
  options.membership.cluster_id = "sim";
  options.seed = seed;
  return options;
}
}  // namespace

World::World(WorldOptions options)
    : options_(std::move(options)), random_(options_.seed, 77), state_(head_options(options_.seed)) {
  tasks_ = random_.chance(0.3);
  places_ = random_.chance(0.5);
}

std::string World::run() {
  const std::uint32_t nodes = 1 + random_.below(4);
  for (std::uint32_t i = 0; i < nodes; ++i) join_node();
  plan_activity();
  const Time end = options_.busy + options_.rest;
  queue_.at(options_.busy, [this] {
    busy_ = false;
    say("---- from here on nothing new happens");
  });
  while (broken_.empty() && queue_.step(end)) {}
  if (broken_.empty()) check_end();
  return broken_;
}

void World::plan_activity() {
  queue_.after(Duration(static_cast<Duration::rep>(random_.unit() * 30e6)), [this] {
    if (!busy_) return;
    if (random_.chance(0.06)) fault();
    else act();
    plan_activity();
  });
}

Proc* World::random_proc(bool drivers_only) {
  std::vector<Proc*> able;
  for (auto& [number, node] : nodes_) {
    if (!node->alive || node->frozen || !node->registered) continue;
    for (auto& [serial, proc] : node->procs) {
      bool runs = proc.role == wire::Role::kDriver;
      for (const auto& [actor, hosted] : proc.hosts) runs = runs || hosted.constructed;
      if (proc.alive && proc.job != 0 && runs && (!drivers_only || proc.role == wire::Role::kDriver))
        able.push_back(&proc);
    }
  }
  return able.empty() ? nullptr : able[random_.below(static_cast<std::uint32_t>(able.size()))];
}

std::optional<ActorId> World::random_held(const Proc& proc) {
  if (proc.holds.empty()) return std::nullopt;
  auto at = proc.holds.begin();
  std::advance(at, random_.below(static_cast<std::uint32_t>(proc.holds.size())));
  return *at;
}

void World::act() {
  Proc* proc = random_proc(random_.chance(0.6));
  if (!proc) return;
  std::optional<ActorId> held = random_held(*proc);
  const std::uint32_t dice = random_.below(100);
  if (dice < 25) {
    create_actor(*proc);
  } else if (dice < 30) {
    create_light(*proc);
  } else if (dice < 40) {
    look_up(*proc);
  } else if (dice < 58) {
    if (held) drop(*proc, *held);
  } else if (dice < 70) {
    Proc* other = random_proc(false);
    if (held && other && other != proc) hand_over(*proc, *other, *held);
  } else if (dice < 76) {
    if (held) request(*proc, Method::kKillActor, wire::KillActor{*held, random_.chance(0.4)}, *held);
  } else if (dice < 80) {  // exit_actor
    for (const auto& [actor, hosted] : proc->hosts) {
      if (!hosted.constructed) continue;
      const ActorId id = actor;
      notice(*proc, Method::kActorExited,
             wire::ActorExited{id, hosted.restarts, proc->id, DeathCause::kFinished, "left", {}});
      finish_actor(*proc, id, DeathCause::kFinished);
      break;
    }
  } else {
    ask_something(*proc);
  }
}

void World::fault() {
  std::vector<Node*> up;
  for (auto& [number, node] : nodes_) if (node->alive && !node->frozen && node->registered) up.push_back(node.get());
  if (up.empty()) return join_node();
  Node& node = *up[random_.below(static_cast<std::uint32_t>(up.size()))];
  const std::uint32_t dice = random_.below(100);
  if (dice < 60) {
    std::vector<Proc*> living;
    for (auto& [serial, proc] : node.procs) if (proc.alive && proc.role == wire::Role::kWorker) living.push_back(&proc);
    if (!living.empty())
      kill_proc(*living[random_.below(static_cast<std::uint32_t>(living.size()))], "killed by SIGSEGV (11)");
  } else if (dice < 65) {
    if (up.size() > 1) kill_node(node);
  } else if (dice < 70) {
    freeze(node, Duration(static_cast<Duration::rep>(random_.unit() * 8e9)));
  } else if (dice < 80) {
    if (nodes_.size() < 8) join_node();
  } else if (dice < 88) {  // a driver ends, in order or not
    Proc* driver = random_proc(true);
    if (!driver) return;
    if (random_.chance(0.5))
      daemon_notice(*node_of(driver->id), Method::kJobFinished, wire::JobFinished{driver->job, driver->id, 0, ""});
    kill_proc(*driver, "exited with code 0");
  } else if (dice < 96) {
    start_driver(node);
  } else if (planted("false-death")) {
    for (auto& [serial, proc] : node.procs) {  // the node says that a process died, and it did not
      if (!proc.alive || proc.hosts.empty()) continue;
      wire::ProcessDied died;
      died.process = proc.id;
      died.reason = "killed by nobody";
      daemon_notice(node, Method::kProcessDied, died);
      break;
    }
  } else if (tasks_) {  // tasks take what they find, behind the head's back
    const auto need = sched::ResourceSet::from_map({{"CPU", 1}});
    if (!node.account.try_grant(need)) return;
    plan_load(node);
    on_node(node, [this, &node, need] {
      node.account.give_back(need);
      plan_load(node);
      let_in(node);
    }, queue_.now() + Duration(static_cast<Duration::rep>(random_.unit() * 3e9)));
  }
}

}  // namespace troupe::sim
