#include "objectstore/server/slot_table.h"

namespace troupe::store {

std::optional<std::uint32_t> SlotTable::lease(SlotKind kind, ProcessId owner, Range range) {
  std::uint32_t slot;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else if (records_.size() < limit_) {
    slot = std::uint32_t(records_.size());
    records_.emplace_back();
  } else {
    return std::nullopt;
  }
  records_[slot] = {.kind = kind, .exported = false, .holds = 0, .owner = owner, .range = range};
  return slot;
}

void SlotTable::free_slot(std::uint32_t slot) {
  records_[slot] = {};
  free_.push_back(slot);
}

}  // namespace troupe::store
