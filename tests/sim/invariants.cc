// The truth of the models against what the head believes: SI-1 to SI-6 of world.h.
#include "tests/sim/world.h"

namespace troupe::sim {

using wire::ActorState;

void World::check_step() {
  if (!broken_.empty()) return;
  check_no_return();
  if (steps_ % 8 == 0) check_copies();
  for (const sched::NodeView& node : state_.membership().view().nodes()) {
    if (!node.available.fits(node.total))
      broken("SI-4: node " + std::to_string(node.node) + " has more than its total");
  }
}

void World::check_no_return() {
  for (auto& [id, truth] : actors_) {
    std::optional<ActorState> state = state_.actors().state_of(id);
    if (!state) continue;
    if (truth.ever_dead && *state != ActorState::kDead)
      return broken("SI-3: actor " + to_string(id) + " came back from the dead");
    truth.ever_dead = truth.ever_dead || *state == ActorState::kDead;
  }
}

void World::check_copies() {
  std::map<ActorId, std::vector<ProcessId>> copies;
  std::map<std::pair<std::string, std::string>, std::set<ActorId>> named;
  for (const auto& [number, node] : nodes_) {
    // declared dead and not fenced yet: cut off, its copies do not count
    if (!node->alive || !state_.membership().alive(number)) continue;
    for (const auto& [serial, proc] : node->procs) {
      if (!proc.alive) continue;
      for (const auto& [actor, hosted] : proc.hosts) {
        // on its way out
        if (state_.actors().state_of(actor).value_or(ActorState::kDead) == ActorState::kDead) continue;
        copies[actor].push_back(proc.id);
        const wire::ActorSpec& spec = actors_.at(actor).spec;
        if (!spec.name.empty())
          named[{spec.name_space.empty() ? "job" + std::to_string(spec.job) : spec.name_space, spec.name}].insert(
              actor);
      }
    }
  }
  for (const auto& [actor, processes] : copies) {
    if (processes.size() > 1)
      broken("SI-1: actor " + to_string(actor) + " lives in " + to_string(processes[0]) + " and in " +
             to_string(processes[1]));
  }
  for (const auto& [name, actors] : named) {
    if (actors.size() > 1) broken("SI-1: two actors live under the name " + name.second);
  }
}

std::map<ActorId, std::set<ProcessId>> World::holders_in_truth() {
  std::map<ActorId, std::set<ProcessId>> holders;
  for (const auto& [number, node] : nodes_) {
    if (!node->alive) continue;
    for (const auto& [serial, proc] : node->procs) {
      if (!proc.alive) continue;
      for (ActorId actor : proc.holds) holders[actor].insert(proc.id);
    }
  }
  return holders;
}

void World::check_end() {
  const auto holders = holders_in_truth();
  for (const auto& [number, node] : nodes_) {
    if (node->alive != state_.membership().alive(number))
      return broken("SI-6: node " + std::to_string(number) + " is " + (node->alive ? "alive" : "dead") +
                    ", and the head thinks otherwise");
    if (!node->alive) continue;
    for (const auto& [serial, proc] : node->procs) {
      if (!proc.alive) continue;
      for (const auto& [token, pending] : proc.pending) {
        bool waits = pending.method == Method::kMonitorActor &&
                     state_.actors().state_of(pending.actor).value_or(ActorState::kDead) != ActorState::kDead;
        // A creation may wait for a name whose actor is asked to end, as long as that one has not ended.
        if (!waits)
          return broken("SI-2: process " + to_string(proc.id) + " was never answered (method " +
                        std::to_string(static_cast<int>(pending.method)) + ")");
      }
      if (proc.job != 0 && !state_.jobs().running(proc.job) && proc.hosts.empty() && proc.role == wire::Role::kDriver)
        return broken("SI-6: the driver of an ended job lives");
      for (const auto& [actor, hosted] : proc.hosts) {
        if (state_.actors().state_of(actor).value_or(ActorState::kDead) == ActorState::kDead)
          return broken("SI-6: process " + to_string(proc.id) + " still hosts dead actor " + to_string(actor));
      }
    }
    for (const sched::NodeView& known : state_.membership().view().nodes()) {
      const sched::NodeView* mine = node->view.find(known.node);
      if (!mine || mine->available != known.available)
        return broken("SI-6: the view of node " + std::to_string(number) + " of node " + std::to_string(known.node) +
                      " is not the head's");
    }
    if (!planted("false-load") && state_.membership().view().find(number)->available != node->account.available())
      return broken("SI-6: the head does not know what node " + std::to_string(number) + " has left");
  }
  for (const auto& [actor, truth] : actors_) {
    const ActorState state = state_.actors().state_of(actor).value_or(ActorState::kDead);
    if (state == ActorState::kDead) continue;
    const std::size_t held = holders.contains(actor) ? holders.at(actor).size() : 0;
    if (state_.actors().holders(actor) != held) {
      return broken("SI-6: actor " + to_string(actor) + " has " + std::to_string(held) +
                    " holders, and the head counts " + std::to_string(state_.actors().holders(actor)));
    }
    if (held == 0 && truth.spec.lifetime == Lifetime::kScoped)
      return broken("SI-6: scoped actor " + to_string(actor) + " lives without holders");
    if (state == ActorState::kAlive) continue;
    sched::Request request{.resources = sched::ResourceSet::from(truth.spec.resources, sched::kActorCpus),
                           .scheduling = truth.spec.scheduling,
                           .labels = truth.spec.labels,
                           .bytes_by_node = {}};
    const sched::Decision decision = sched::decide(state_.membership().view(), request, {});
    if (decision.kind != sched::Decision::Kind::kWait)
      return broken("SI-6: actor " + to_string(actor) + " is not alive, and there is room for it");
  }
}

}  // namespace troupe::sim
