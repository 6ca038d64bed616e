#include "objectstore/server/pin_tables.h"

#include <algorithm>
#include <atomic>

#include "objectstore/arena/layout.h"

namespace troupe::store {
namespace {

const std::atomic<std::uint8_t>& touched(const Mapping& map, std::uint32_t block) {
  return reinterpret_cast<const std::atomic<std::uint8_t>*>(map.data())[block];
}

const std::atomic<std::uint32_t>& count(const Mapping& map, std::uint32_t slot) {
  return reinterpret_cast<const std::atomic<std::uint32_t>*>(map.data() + PinTableLayout::kTouchedBytes)[slot];
}

}  // namespace

Result<UniqueFd> PinTables::add(ProcessId client) {
  std::uint64_t bytes = PinTableLayout::bytes(slots_);
  auto fd = make_memfd("troupe-pins", bytes);
  if (!fd.ok()) return fd.error_ptr();
  auto map = Mapping::read_write(*fd, bytes);
  if (!map.ok()) return map.error_ptr();
  tables_.push_back({client, std::move(*map)});
  return fd;
}

std::vector<std::uint32_t> PinTables::drop(ProcessId client) {
  auto table = std::find_if(tables_.begin(), tables_.end(), [&](const Table& t) { return t.client == client; });
  if (table == tables_.end()) return {};
  std::vector<std::uint32_t> slots;
  for (std::uint32_t block = 0; block * kPinBlockSlots < slots_; ++block) {
    if (touched(table->map, block).load(std::memory_order_acquire) == 0) continue;
    const std::uint32_t end = std::min(slots_, (block + 1) * kPinBlockSlots);
    for (std::uint32_t slot = block * kPinBlockSlots; slot < end; ++slot) slots.push_back(slot);
  }
  tables_.erase(table);
  return slots;
}

bool PinTables::pinned(std::uint32_t slot) const {
  for (const Table& table : tables_) {
    if (touched(table.map, slot / kPinBlockSlots).load(std::memory_order_seq_cst) == 0) continue;  // SL-5
    if (count(table.map, slot).load(std::memory_order_seq_cst) != 0) return true;
  }
  return false;
}

std::uint64_t PinTables::pinned_slots(ProcessId client) const {
  for (const Table& table : tables_) {
    if (table.client == client) return nonzero(table).size();
  }
  return 0;
}

std::vector<std::uint32_t> PinTables::nonzero(const Table& table) const {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t block = 0; block * kPinBlockSlots < slots_; ++block) {
    if (touched(table.map, block).load(std::memory_order_acquire) == 0) continue;
    std::uint32_t end = std::min(slots_, (block + 1) * kPinBlockSlots);
    for (std::uint32_t slot = block * kPinBlockSlots; slot < end; ++slot) {
      if (count(table.map, slot).load(std::memory_order_acquire) != 0) slots.push_back(slot);
    }
  }
  return slots;
}

}  // namespace troupe::store
