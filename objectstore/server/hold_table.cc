#include "objectstore/server/hold_table.h"

#include <utility>

namespace troupe::store {

void HoldTable::add(ProcessId holder, std::uint32_t slot) { ++holds_[holder][slot]; }

bool HoldTable::remove(ProcessId holder, std::uint32_t slot) {
  auto held = holds_.find(holder);
  if (held == holds_.end()) return false;
  auto count = held->second.find(slot);
  if (count == held->second.end()) return false;
  if (--count->second == 0) held->second.erase(count);
  if (held->second.empty()) holds_.erase(held);
  return true;
}

HoldTable::Counts HoldTable::take(ProcessId holder) {
  auto held = holds_.extract(holder);
  return held ? std::move(held.mapped()) : Counts();
}

std::vector<ProcessId> HoldTable::holders_of_node(std::uint32_t node) const {
  std::vector<ProcessId> holders;
  for (const auto& [holder, slots] : holds_) {
    if (holder.node == node) holders.push_back(holder);
  }
  return holders;
}

std::uint64_t HoldTable::total() const {
  std::uint64_t sum = 0;
  for (const auto& [holder, slots] : holds_) {
    for (auto [slot, count] : slots) sum += count;
  }
  return sum;
}

}  // namespace troupe::store
