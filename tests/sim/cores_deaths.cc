// Deaths in the cores' world: how processes and nodes end, and who hears of it in which order (DA-1).
#include "tests/sim/cores.h"

#include <algorithm>

namespace troupe::sim {

using namespace std::chrono_literals;

namespace {
TimePoint lease_time(Time now) { return TimePoint(now + 1h); }
}  // namespace

void CoreWorld::kill(SimProcess& process, const std::string& reason, DeathCause cause, bool in_order) {
  if (!process.alive) return;
  say("process " + to_string(process.id) + " ends: " + reason);
  process.alive = false;
  if (process.memory) node_at(process.id.node)->memory->died(*process.memory);
  if (process.reason.empty() || !process.in_order) {
    process.reason = reason;
    process.cause = cause;
  }
  if (in_order) process.in_order = true;
  else cut_tail(process.id);
  dead_.push_back(&process);
  queue_.after(random_.chance(0.8) ? 100us + delay(process.id.node) : 20ms + delay(process.id.node),
               [this, id = process.id] {
                 SimNode* node = node_at(id.node);
                 if (node && node->alive) finish_death(*node, *find_any(id));
               });
}

/// Just after something that others have yet to hear of.
void CoreWorld::may_die_soon(ProcessId host, double chance, Random& random) {
  if (!busy_ || !faults_ || !random.chance(chance)) return;
  queue_.after(Duration(static_cast<Duration::rep>(random.unit() * 1e6)), [this, host] {
    if (SimProcess* process = find(host)) kill(*process, "killed by SIGSEGV (11)");
  });
}

/// The same of a whole node, of those without a driver.
void CoreWorld::node_may_die_soon(std::uint32_t number, double chance) {
  if (!busy_ || !faults_ || !late_.chance(chance)) return;
  queue_.after(Duration(static_cast<Duration::rep>(late_.unit() * 1e6)), [this, number] {
    if (SimNode* node = node_at(number); node && node->alive && !drives(*node)) kill_node(*node);
  });
}

bool CoreWorld::drives(const SimNode& node) const {
  return std::any_of(node.processes.begin(), node.processes.end(), [](const auto& one) {
    return one.second->alive && one.second->role == wire::Role::kDriver;
  });
}

void CoreWorld::finish_death(SimNode& node, SimProcess& process) {
  const ProcessId id = process.id, daemon = daemon_of(node.number);
  if (process.actor && node.starts.erase(*process.actor) > 0) {
    const auto key = *process.actor;
    process.actor.reset();
    node.leases->actor_gone(key.first, key.second, lease_time(queue_.now()));
    notice(daemon, kHead, wire::Method::kStartActorFailed,
           wire::StartActorFailed{
               key.first, key.second,
               head::error_record(ErrorCode::kWorkerCrashed, "its process ended before it was ready"), true});
  }
  wire::ProcessDied death;
  death.process = id;
  death.role = process.role;
  death.job = process.job;
  death.pid = 1;
  death.expected = process.in_order;
  death.cause = process.cause;
  death.reason = process.reason;
  if (process.actor) {
    death.actor = process.actor->first;
    death.actor_restarts = process.actor->second;
  }
  process.ledger.begun(process.begun_of[daemon].snapshot());
  death.begun = process.ledger.begun_up_to();
  death.begun_beyond = process.ledger.begun_beyond();
  auto own = channels_.find({id, daemon});  // DA-1: what it said comes first
  while (own != channels_.end() && !own->second.frames.empty()) deliver(id, daemon);
  node.deaths[id] = death;
  const bool untold = planted("lost-death") && busy_ && process.role == wire::Role::kWorker && ++planted_ <= 20;
  for (auto& [serial, other] : node.processes) {
    if (!other->alive || !other->core) continue;
    if (untold && other->role == wire::Role::kWorker) continue;
    notice(daemon, other->id, wire::Method::kProcessDied, death);
  }
  for (auto& [number, other] : nodes_)
    if (number != node.number && other->alive) notice(daemon, daemon_of(number), wire::Method::kProcessDied, death);
  notice(daemon, kHead, wire::Method::kProcessDied, death, channels_[{id, kHead}].last);
  const TimePoint now = lease_time(queue_.now());
  node.leases->process_died(id, now);
  std::erase_if(node.retiring, [&](const auto& asked) { return asked.second == id; });
  node.retirement->over(id);
  if (node.memory) node.memory->ask([id](auto& server) { server.holder_gone(id); });
  if (process.actor) node.leases->actor_gone(process.actor->first, process.actor->second, now);
  for (auto it = node.light_actors.begin(); it != node.light_actors.end();) {
    if (it->second != id) { ++it; continue; }
    node.leases->actor_gone(it->first.first, it->first.second, now);
    it = node.light_actors.erase(it);
  }
  if (!process.ready && process.role == wire::Role::kWorker && !process.actor && !process.light_host)
    node.leases->worker_failed(process.kind, std::nullopt, now);
  if (process.light_host) {  // ActorStarts::hosts_settled: others may have waited for it to be ready
    for (const auto& [key, start] : std::map(node.starts))
      if (start.admitted && start.message.spec.isolation == Isolation::kLight && start.message.spec.job == process.job)
        actor_admitted(node, key, start.gpu_ids);
  }
  if (process.role == wire::Role::kDriver && process.job != 0)
    notice(daemon, kHead, wire::Method::kJobFinished, wire::JobFinished{process.job, id, 0, process.reason});
  apply_leases(node);
}

void CoreWorld::on_remote_death(SimNode& node, const wire::ProcessDied& died) {
  if (!node.deaths.emplace(died.process, died).second) return;
  for (auto& [serial, process] : node.processes)
    if (process->alive && process->core)
      notice(daemon_of(node.number), process->id, wire::Method::kProcessDied, died,
             channels_[{died.process, process->id}].last);
  node.leases->process_died(died.process, lease_time(queue_.now()));
  if (node.memory) node.memory->ask([id = died.process](auto& server) { server.holder_gone(id); });
}

void CoreWorld::kill_node(SimNode& node) {
  say("node " + std::to_string(node.number) + " is lost");
  for (auto& [serial, process] : node.processes) {
    if (!process->alive) continue;
    process->alive = false;
    dead_.push_back(process.get());
    cut_tail(process->id);
  }
  node.alive = false;
  cut_links(node.number);
  const LinkId link = node.link;
  if (links_.erase(link) == 0) return;
  queue_.after(delay(0), [this, link] { apply_head(head::LinkClosed{link}); });
}

void CoreWorld::on_node_died(SimNode& node, const wire::NodeDied& died) {
  if (died.node == node.number) return;
  node.dead_nodes.insert(died.node);
  for (auto& [pair, channel] : channels_)
    if (pair.first.node == died.node && pair.second.node == node.number) channel.frames.clear();
  for (auto& [serial, process] : node.processes)
    if (process->alive && process->core) notice(daemon_of(node.number), process->id, wire::Method::kNodeDied, died);
  node.leases->node_died(died.node, lease_time(queue_.now()));
  if (node.memory) node.memory->ask([gone = died.node](auto& server) { server.holders_of_node_gone(gone); });
}

}  // namespace troupe::sim
