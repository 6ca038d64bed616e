#include "objectstore/server/chunk_table.h"

#include <iterator>

namespace troupe::store {

std::uint32_t ChunkTable::add(ProcessId owner, Range range) {
  while (next_id_ == 0 || offset_of_.contains(next_id_)) ++next_id_;
  std::uint32_t id = next_id_++;
  by_offset_[range.offset] = {.id = id, .owner = owner, .range = range, .returned = false, .freed = 0, .expected = 0};
  offset_of_[id] = range.offset;
  bytes_ += range.size;
  return id;
}

ChunkTable::Chunk* ChunkTable::containing(Range range, ProcessId owner) {
  auto next = by_offset_.upper_bound(range.offset);
  if (next == by_offset_.begin()) return nullptr;
  Chunk& chunk = std::prev(next)->second;
  std::uint64_t into = range.offset - chunk.range.offset;
  if (chunk.owner != owner || into > chunk.range.size || range.size > chunk.range.size - into) return nullptr;
  return &chunk;
}

ChunkTable::Chunk* ChunkTable::find(std::uint32_t id) {
  auto found = offset_of_.find(id);
  return found == offset_of_.end() ? nullptr : &by_offset_.at(found->second);
}

std::optional<Range> ChunkTable::returned(Chunk& chunk, std::uint64_t shared) {
  chunk.returned = true;
  chunk.expected = shared;
  return erase_if_empty(chunk);
}

std::optional<Range> ChunkTable::freed_one(Chunk& chunk) {
  ++chunk.freed;
  return erase_if_empty(chunk);
}

std::optional<Range> ChunkTable::orphaned(Chunk& chunk, std::uint64_t live) {
  chunk.owner = {};
  return returned(chunk, chunk.freed + live);
}

std::vector<std::uint32_t> ChunkTable::owned_by(ProcessId owner) const {
  std::vector<std::uint32_t> ids;
  for (const auto& [offset, chunk] : by_offset_) {
    if (chunk.owner == owner) ids.push_back(chunk.id);
  }
  return ids;
}

std::optional<Range> ChunkTable::erase_if_empty(Chunk& chunk) {
  if (!chunk.returned || chunk.freed < chunk.expected) return std::nullopt;
  Range range = chunk.range;
  bytes_ -= range.size;
  offset_of_.erase(chunk.id);
  by_offset_.erase(range.offset);
  return range;
}

}  // namespace troupe::store
