#include "core/head/state/actors/actor_table.h"

#include <algorithm>
#include <utility>

namespace troupe::head {
namespace {

sched::ResourceSet need_of(const ActorRecord& actor) {
  return sched::ResourceSet::from(actor.spec.resources, sched::kActorCpus);
}

}  // namespace

ActorRecord& ActorTable::add(wire::ActorSpec spec) {
  auto& actor = *actors_.emplace(spec.id, std::make_unique<ActorRecord>()).first->second;
  actor.spec = std::move(spec);
  return actor;
}

ActorRecord* ActorTable::find(ActorId id) {
  auto at = actors_.find(id);
  return at == actors_.end() ? nullptr : at->second.get();
}

const ActorRecord* ActorTable::find(ActorId id) const { return const_cast<ActorTable*>(this)->find(id); }

ActorRecord* ActorTable::find(ActorId id, std::int32_t restarts) {
  ActorRecord* actor = find(id);
  return actor && actor->restarts == restarts ? actor : nullptr;
}

std::unique_ptr<ActorRecord> ActorTable::remove(ActorId id) {
  auto node = actors_.extract(id);
  if (node.empty()) return nullptr;
  leave(*node.mapped());
  return std::move(node.mapped());
}

void ActorTable::host(ActorRecord& actor, ProcessId process, std::int32_t pid) {
  if (actor.process != process) {
    unlist(actor);
    actor.process = process;
    hosted_[process].push_back(actor.spec.id);
  }
  if (pid != 0) actor.pid = pid;
}

void ActorTable::unlist(const ActorRecord& actor) {
  auto at = hosted_.find(actor.process);
  if (at == hosted_.end()) return;
  std::erase(at->second, actor.spec.id);
  if (at->second.empty()) hosted_.erase(at);
}

void ActorTable::place(ActorRecord& actor, std::uint32_t node) {
  leave(actor);
  actor.node = actor.last_node = node;
  if (const sched::ResourceSet need = need_of(actor); !need.empty()) held_[node].add(need);
}

void ActorTable::leave(ActorRecord& actor) {
  unlist(actor);
  actor.process = {};
  if (auto at = held_.find(std::exchange(actor.node, 0)); at != held_.end()) {
    at->second.subtract(need_of(actor));
    if (at->second.empty()) held_.erase(at);
  }
}

const std::vector<ActorId>& ActorTable::hosted_by(ProcessId process) const {
  static const std::vector<ActorId> none;
  auto at = hosted_.find(process);
  return at == hosted_.end() ? none : at->second;
}

std::vector<ProcessId> ActorTable::hosts_on(std::uint32_t node) const {
  std::vector<ProcessId> list;
  for (const auto& [process, actors] : hosted_) if (process.node == node) list.push_back(process);
  std::sort(list.begin(), list.end());
  return list;
}

template <class Keep> std::vector<ActorId> ActorTable::those(Keep&& keep) const {
  std::vector<ActorId> ids;
  for (const auto& [id, actor] : actors_) if (keep(*actor)) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<ActorId> ActorTable::all() const {
  return those([](const ActorRecord&) { return true; });
}

std::vector<ActorId> ActorTable::of_job(JobId job) const {
  return those([job](const ActorRecord& actor) { return actor.spec.job == job; });
}

std::vector<ActorId> ActorTable::starting_on(std::uint32_t node) const {
  return those([node](const ActorRecord& actor) {
    return actor.phase == ActorRecord::Phase::kStarting && actor.node == node;
  });
}

std::optional<ActorId> ActorTable::any_of(JobId job) const {
  for (const auto& [id, actor] : actors_) if (actor->spec.job == job) return id;
  return std::nullopt;
}

}  // namespace troupe::head
