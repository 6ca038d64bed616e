#include "core/head/state/actors/handles.h"

#include <algorithm>

namespace troupe::head {
namespace {
constexpr std::size_t kDroppedEarlyMax = 65'536;
}  // namespace

bool Holds::created(ActorId actor) {
  if (dropped_early_.erase(actor) != 0) return false;
  hold(actor.maker, actor);
  return true;
}

bool Holds::hold(ProcessId holder, ActorId actor) {
  if (!held_[holder].insert(actor).second) return false;
  ++counts_[actor];
  return true;
}

bool Holds::drop(ProcessId holder, ActorId actor) {
  if (!erase(holder, actor)) {
    if (holder == actor.maker && dropped_early_.insert(actor).second) {
      dropped_order_.push_back(actor);
      if (dropped_order_.size() > kDroppedEarlyMax) {
        dropped_early_.erase(dropped_order_.front());
        dropped_order_.pop_front();
      }
    }
    return false;
  }
  lower(actor);
  return true;
}

bool Holds::erase(ProcessId holder, ActorId actor) {
  auto at = held_.find(holder);
  if (at == held_.end() || at->second.erase(actor) == 0) return false;
  if (at->second.empty()) held_.erase(at);
  return true;
}

void Holds::forget(ActorId actor) {
  auto count = counts_.find(actor);
  if (count == counts_.end()) return;
  std::uint32_t left = count->second;
  counts_.erase(count);
  if (erase(actor.maker, actor)) --left;
  for (ProcessId holder : left == 0 ? std::vector<ProcessId>{} : processes())
    if (left != 0 && erase(holder, actor)) --left;
}

std::vector<ActorId> Holds::drop_all(ProcessId holder) {
  auto at = held_.find(holder);
  if (at == held_.end()) return {};
  std::vector<ActorId> actors(at->second.begin(), at->second.end());
  std::sort(actors.begin(), actors.end());  // the order of a hash table is no order for a replay
  held_.erase(at);
  for (ActorId actor : actors) lower(actor);
  return actors;
}

void Holds::lower(ActorId actor) {
  auto count = counts_.find(actor);
  if (count == counts_.end()) return;  // forgotten: dead
  if (--count->second == 0) counts_.erase(count);
}

std::uint32_t Holds::holders(ActorId actor) const {
  auto at = counts_.find(actor);
  return at == counts_.end() ? 0 : at->second;
}

bool Holds::holds(ProcessId holder, ActorId actor) const {
  auto at = held_.find(holder);
  return at != held_.end() && at->second.contains(actor);
}

std::vector<ProcessId> Holds::processes() const {
  std::vector<ProcessId> list;
  for (const auto& [process, actors] : held_) list.push_back(process);
  std::sort(list.begin(), list.end());
  return list;
}

void Subscriptions::add(ProcessId process, ActorId actor) {
  if (by_process_[process].insert(actor).second) by_actor_[actor].push_back(process);
}

void Subscriptions::remove(ProcessId process, ActorId actor) {
  auto at = by_process_.find(process);
  if (at == by_process_.end() || at->second.erase(actor) == 0) return;
  if (at->second.empty()) by_process_.erase(at);
  auto list = by_actor_.find(actor);
  std::erase(list->second, process);
  if (list->second.empty()) by_actor_.erase(list);
}

void Subscriptions::remove_process(ProcessId process) {
  auto at = by_process_.find(process);
  if (at == by_process_.end()) return;
  for (ActorId actor : at->second) {
    auto list = by_actor_.find(actor);
    std::erase(list->second, process);
    if (list->second.empty()) by_actor_.erase(list);
  }
  by_process_.erase(at);
}

void Subscriptions::remove_actor(ActorId actor) {
  auto list = by_actor_.find(actor);
  if (list == by_actor_.end()) return;
  for (ProcessId process : list->second) {
    auto at = by_process_.find(process);
    at->second.erase(actor);
    if (at->second.empty()) by_process_.erase(at);
  }
  by_actor_.erase(list);
}

const std::vector<ProcessId>& Subscriptions::of(ActorId actor) const {
  static const std::vector<ProcessId> none;
  auto at = by_actor_.find(actor);
  return at == by_actor_.end() ? none : at->second;
}

std::vector<ProcessId> Subscriptions::processes() const {
  std::vector<ProcessId> list;
  for (const auto& [process, actors] : by_process_) list.push_back(process);
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace troupe::head
