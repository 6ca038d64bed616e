#include "objectstore/server/slot_index.h"

#include <algorithm>
#include <utility>

namespace troupe::store {

Status SlotIndex::open(std::uint32_t slots) {
  const std::uint64_t bytes = std::uint64_t(slots) * sizeof(IndexEntry);
  auto fd = make_memfd("troupe-index", bytes);
  if (!fd.ok()) return fd.error_ptr();
  fd_ = std::move(*fd);
  auto map = Mapping::read_write(fd_, bytes);
  if (!map.ok()) return map.error_ptr();
  map_ = std::move(*map);
  return {};
}

std::uint32_t SlotIndex::lease(std::uint32_t slot) {
  const std::uint32_t generation = std::max(1u, word(slot).generation);
  set_word(slot, {generation, SlotState::kLeased});
  return generation;
}

bool SlotIndex::doom(std::uint32_t slot, SlotWord sealed) {
  std::uint64_t expected = pack(sealed);
  const std::uint64_t doomed = pack({sealed.generation, SlotState::kDoomed});
  return entry(slot).word.compare_exchange_strong(expected, doomed, std::memory_order_seq_cst);
}

Range SlotIndex::bytes_of(std::uint32_t slot) const {
  return {entry(slot).offset.load(std::memory_order_relaxed), entry(slot).size.load(std::memory_order_relaxed)};
}

void SlotIndex::set_bytes(std::uint32_t slot, Range bytes) {
  entry(slot).offset.store(bytes.offset, std::memory_order_relaxed);
  entry(slot).size.store(bytes.size, std::memory_order_relaxed);
}

}  // namespace troupe::store
