#include "core/head/state/actors/light_table.h"

#include <algorithm>

namespace troupe::head {

bool LightTable::add(ActorId actor, ProcessId host, JobId job, std::uint32_t kind, bool heard) {
  if (!actors_.try_emplace(actor, LightActor{host, job, kind, false, heard}).second) return false;
  ++hosted_[host];
  return true;
}

std::uint32_t LightTable::kind_of(const std::string& class_name) {
  auto at = std::find(kinds_.begin(), kinds_.end(), class_name);  // as many as there are classes: few
  if (at == kinds_.end()) at = kinds_.insert(kinds_.end(), class_name);
  return static_cast<std::uint32_t>(at - kinds_.begin());
}

LightActor* LightTable::find(ActorId actor) {
  auto at = actors_.find(actor);
  return at == actors_.end() ? nullptr : &at->second;
}

const LightActor* LightTable::find(ActorId actor) const {
  auto at = actors_.find(actor);
  return at == actors_.end() ? nullptr : &at->second;
}

void LightTable::remove(ActorId actor) {
  auto at = actors_.find(actor);
  if (at == actors_.end()) return;
  auto host = hosted_.find(at->second.host);
  if (--host->second == 0) hosted_.erase(host);
  actors_.erase(at);
}

std::size_t LightTable::hosted(ProcessId host) const {
  auto at = hosted_.find(host);
  return at == hosted_.end() ? 0 : at->second;
}

std::vector<ActorId> LightTable::in_host(ProcessId host) const {
  std::vector<ActorId> list;
  if (hosted(host) == 0) return list;
  for (const auto& [id, actor] : actors_)
    if (actor.host == host) list.push_back(id);
  std::sort(list.begin(), list.end());
  return list;
}

std::vector<ProcessId> LightTable::hosts_on(std::uint32_t node) const {
  std::vector<ProcessId> list;
  for (const auto& [host, count] : hosted_) {
    if (host.node == node) list.push_back(host);
  }
  std::sort(list.begin(), list.end());
  return list;
}

std::vector<ActorId> LightTable::all() const {
  std::vector<ActorId> list;
  list.reserve(actors_.size());
  for (const auto& [id, actor] : actors_) list.push_back(id);
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace troupe::head
