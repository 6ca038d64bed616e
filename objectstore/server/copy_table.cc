#include "objectstore/server/copy_table.h"

namespace troupe::store {

void CopyTable::begin(BufferId remote, BufferId local) {
  by_remote_[remote] = local.slot;
  by_slot_[local.slot] =
      Node{{.remote = remote, .local = local, .state = State::kFilling, .origin_gone = false}, lru_.end()};
}

bool CopyTable::finish(BufferId remote) {
  auto found = by_remote_.find(remote);
  if (found == by_remote_.end()) return false;
  Node& node = by_slot_.at(found->second);
  if (node.copy.state != State::kFilling) return false;
  node.copy.state = State::kPresent;
  node.place = lru_.insert(lru_.end(), found->second);
  if (node.copy.origin_gone) by_remote_.erase(found);
  return true;
}

const CopyTable::Copy* CopyTable::find(BufferId remote) const {
  auto found = by_remote_.find(remote);
  return found == by_remote_.end() ? nullptr : &by_slot_.at(found->second).copy;
}

const CopyTable::Copy* CopyTable::at_slot(std::uint32_t local_slot) const {
  auto found = by_slot_.find(local_slot);
  return found == by_slot_.end() ? nullptr : &found->second.copy;
}

void CopyTable::touch(std::uint32_t local_slot) {
  auto found = by_slot_.find(local_slot);
  if (found == by_slot_.end() || found->second.copy.state != State::kPresent) return;
  lru_.splice(lru_.end(), lru_, found->second.place);
}

void CopyTable::mark_origin_gone(BufferId remote) {
  auto found = by_remote_.find(remote);
  if (found == by_remote_.end()) return;
  Copy& copy = by_slot_.at(found->second).copy;
  copy.origin_gone = true;
  if (copy.state == State::kPresent) by_remote_.erase(found);
}

std::vector<BufferId> CopyTable::of_node(std::uint32_t node) const {
  std::vector<BufferId> ids;
  for (const auto& [remote, slot] : by_remote_) {
    if (remote.node == node) ids.push_back(remote);
  }
  return ids;
}

void CopyTable::erase_slot(std::uint32_t local_slot) {
  auto found = by_slot_.find(local_slot);
  if (found == by_slot_.end()) return;
  const Copy& copy = found->second.copy;
  if (auto named = by_remote_.find(copy.remote); named != by_remote_.end() && named->second == local_slot)
    by_remote_.erase(named);
  if (copy.state == State::kPresent) lru_.erase(found->second.place);
  by_slot_.erase(found);
}

}  // namespace troupe::store
