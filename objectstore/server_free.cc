// When bytes and slots become free again: drops, holders, deaths; and the audit of the books.
#include <algorithm>
#include <string>
#include <utility>

#include "objectstore/server.h"

namespace troupe::store {

// ---- one slot

/// Frees a sealed buffer if nobody has it. Copies are kept until room is needed, unless their origin is gone.
bool StoreServer::try_free(std::uint32_t slot) {
  SlotWord now = word(slot);
  if (now.state != SlotState::kSealed) return false;
  if (slots_[slot].kind == SlotKind::kCopy) {
    const CopyTable::Copy* copy = copies_.at_slot(slot);
    if (copy && !copy->origin_gone) {
      copies_.touch(slot);
      return false;
    }
  }
  return unlink_if_unpinned(slot, now);
}

/// SL-3, the freeing side: doomed first, then every pin. A maker that recycles at the same moment loses or wins the
/// exchange.
bool StoreServer::unlink_if_unpinned(std::uint32_t slot, SlotWord sealed) {
  if (slots_[slot].holds > 0) return false;
  std::uint64_t expected = pack(sealed);
  std::uint64_t doomed = pack({sealed.generation, SlotState::kDoomed});
  if (!entry(slot).word.compare_exchange_strong(expected, doomed, std::memory_order_seq_cst)) return false;
  if (pins_.pinned(slot)) {
    set_word(slot, sealed);
    return false;
  }
  release_slot(slot, sealed.generation);
  return true;
}

/// Gives bytes and slot back. Nobody can reach them any more.
void StoreServer::release_slot(std::uint32_t slot, std::uint32_t generation) {
  SlotRecord& record = slots_[slot];
  BufferId id = id_of(slot, generation);
  if (record.kind == SlotKind::kSmall) {
    Range bytes{entry(slot).offset.load(std::memory_order_relaxed), entry(slot).size.load(std::memory_order_relaxed)};
    if (ChunkTable::Chunk* chunk = chunks_.containing(bytes, record.owner)) {  // SS-5
      if (auto empty = chunks_.freed_one(*chunk)) free_range(*empty);
    }
  } else {
    free_range(record.range);
  }
  if (const CopyTable::Copy* copy = copies_.at_slot(slot)) {
    if (copy->state == CopyTable::State::kPresent) effects_.push_back(CopyEvicted{copy->remote, copy->local});
    copies_.erase_slot(slot);
  }
  if (record.exported) effects_.push_back(ExportedFreed{id});
  set_word(slot, {next_generation(generation), SlotState::kFree});
  slots_.free_slot(slot);
}

void StoreServer::free_range(Range range) { allocator_.free(range); }

// ---- what clients say

void StoreServer::maybe_free(ProcessId client, std::span<const BufferId> ids) {
  for (BufferId id : ids) {
    if (!valid(id) || word(id.slot).generation != id.generation) continue;
    const SlotRecord& record = slots_[id.slot];
    bool abandoned =
        record.kind == SlotKind::kLarge && record.owner == client && word(id.slot).state == SlotState::kLeased;
    if (abandoned) release_slot(id.slot, id.generation);
    else if (record.kind != SlotKind::kFree) try_free(id.slot);
  }
  serve_queues();
}

void StoreServer::give_back(ProcessId client, std::span<const ReturnedChunk> chunks,
                            std::span<const std::uint32_t> unused_slots) {
  for (const ReturnedChunk& r : chunks) {
    ChunkTable::Chunk* chunk = chunks_.find(r.chunk);
    if (!chunk || chunk->owner != client || chunk->returned) continue;
    if (auto empty = chunks_.returned(*chunk, r.shared)) free_range(*empty);
  }
  for (std::uint32_t slot : unused_slots) {
    if (slot >= slots_.frontier() || slots_[slot].kind != SlotKind::kSmall || slots_[slot].owner != client) continue;
    SlotWord now = word(slot);
    if (now.state != SlotState::kLeased) continue;
    set_word(slot,
             {next_generation(now.generation), SlotState::kFree});  // its last holder may remember this generation
    slots_.free_slot(slot);
  }
  serve_queues();
}

// ---- holders

bool StoreServer::hold(ProcessId holder, BufferId id) {
  if (!contains(id)) return false;
  SlotRecord& record = slots_[id.slot];
  ++record.holds;
  if (holder.node != layout_.node) record.exported = true;
  ++holds_[holder][id.slot];
  return true;
}

void StoreServer::release(ProcessId holder, BufferId id) {
  auto held = holds_.find(holder);
  if (held == holds_.end() || !valid(id) || word(id.slot).generation != id.generation) return;
  auto count = held->second.find(id.slot);
  if (count == held->second.end()) return;
  if (--count->second == 0) held->second.erase(count);
  if (held->second.empty()) holds_.erase(held);
  drop_hold(id.slot, 1);
  serve_queues();
}

void StoreServer::drop_hold(std::uint32_t slot, std::uint32_t count) {
  slots_[slot].holds -= count;
  if (slots_[slot].holds == 0) try_free(slot);
}

void StoreServer::holder_gone(ProcessId holder) {
  auto held = holds_.find(holder);
  if (held == holds_.end()) return;
  auto slots = std::move(held->second);
  holds_.erase(held);
  for (auto [slot, count] : slots) drop_hold(slot, count);
  serve_queues();
}

void StoreServer::node_gone(std::uint32_t node) {
  std::vector<ProcessId> gone;
  for (const auto& [holder, slots] : holds_) {
    if (holder.node == node) gone.push_back(holder);
  }
  for (ProcessId holder : gone) holder_gone(holder);
}

std::optional<std::span<const std::byte>> StoreServer::bytes(BufferId id) const {
  if (!valid(id) || word(id.slot) != SlotWord{id.generation, SlotState::kSealed}) return std::nullopt;
  Range range{entry(id.slot).offset.load(std::memory_order_relaxed),
              entry(id.slot).size.load(std::memory_order_relaxed)};
  if (range.offset > layout_.capacity || range.size > layout_.capacity - range.offset) return std::nullopt;  // SS-5
  return memory(range);
}

// ---- deaths

void StoreServer::client_died(ProcessId client) {
  if (clients_.erase(client) == 0) return;
  drop_requests(client);
  std::vector<std::uint32_t> pinned = pins_.drop(client);
  holder_gone(client);
  reclaim_slots_of(client);
  for (std::uint32_t slot : pinned) {
    if (slot < slots_.frontier() && slots_[slot].kind != SlotKind::kFree) try_free(slot);
  }
  serve_queues();
}

/// SS-3. Its chunks are counted anew: what is still pinned by others keeps them, ownerless.
void StoreServer::reclaim_slots_of(ProcessId client) {
  std::unordered_map<std::uint32_t, std::uint64_t> live;  // by chunk
  for (std::uint32_t slot = 0; slot < slots_.frontier(); ++slot) {
    if (slots_[slot].kind == SlotKind::kFree || slots_[slot].owner != client) continue;
    if (std::uint64_t chunk = reclaim_slot(slot)) ++live[std::uint32_t(chunk)];
  }
  for (std::uint32_t id : chunks_.owned_by(client)) {
    if (auto empty = chunks_.orphaned(*chunks_.find(id), live[id])) free_range(*empty);
  }
}

/// Frees the slot or makes it ownerless; then the chunk that it stays in, or 0.
std::uint64_t StoreServer::reclaim_slot(std::uint32_t slot) {
  SlotWord now = word(slot);
  if (now.state == SlotState::kLeased && slots_[slot].kind == SlotKind::kSmall) {
    // Its bytes were never published: the chunk does not count it.
    set_word(slot, {next_generation(now.generation), SlotState::kFree});
    slots_.free_slot(slot);
    return 0;
  }
  if (now.state == SlotState::kLeased) {
    release_slot(slot, now.generation);
    return 0;
  }
  // Doomed here means that the client died while it recycled the slot itself.
  SlotWord sealed{now.generation, SlotState::kSealed};
  set_word(slot, sealed);
  if (unlink_if_unpinned(slot, sealed)) return 0;
  ProcessId owner = std::exchange(slots_[slot].owner, ProcessId{});
  if (slots_[slot].kind != SlotKind::kSmall) return 0;
  Range bytes{entry(slot).offset.load(std::memory_order_relaxed), entry(slot).size.load(std::memory_order_relaxed)};
  ChunkTable::Chunk* chunk = chunks_.containing(bytes, owner);
  return chunk ? chunk->id : 0;
}

// ---- state

StoreUsage StoreServer::usage() const {
  StoreUsage usage{.capacity = layout_.capacity,
                   .used = 0,
                   .spilled = 0,
                   .objects = 0,
                   .leased = chunks_.bytes(),
                   .reserved = arena_->reserved(),
                   .waiting = waiting_leases_.size() + waiting_large_.size()};
  for (std::uint32_t slot = 0; slot < slots_.frontier(); ++slot) {
    const SlotRecord& record = slots_[slot];
    if (record.kind == SlotKind::kFree) continue;
    bool sealed = word(slot).state == SlotState::kSealed;
    if (sealed) ++usage.objects;
    if (record.kind != SlotKind::kSmall) usage.used += record.range.size;
    else if (sealed) usage.used += entry(slot).size.load(std::memory_order_relaxed);
  }
  return usage;
}

std::optional<Range> StoreServer::populate_ahead(std::uint64_t ahead) const {
  Range fresh = allocator_.fresh();
  fresh.size = std::min(fresh.size, ahead);
  return fresh.size == 0 ? std::nullopt : arena_->first_unpopulated(fresh);
}

std::string StoreServer::audit() const {
  std::vector<Range> ranges;
  chunks_.each([&](const ChunkTable::Chunk& chunk) { ranges.push_back(chunk.range); });
  std::uint64_t holds = 0, held = 0;
  for (std::uint32_t slot = 0; slot < slots_.frontier(); ++slot) {
    const SlotRecord& record = slots_[slot];
    SlotState state = word(slot).state;
    if ((record.kind == SlotKind::kFree) != (state == SlotState::kFree))
      return "slot " + std::to_string(slot) + ": table and index disagree";
    if (state == SlotState::kDoomed && !clients_.contains(record.owner))
      return "slot " + std::to_string(slot) + " stayed doomed";
    if (record.kind == SlotKind::kLarge || record.kind == SlotKind::kCopy) ranges.push_back(record.range);
    if (!(record.owner == ProcessId{}) && !clients_.contains(record.owner))
      return "slot " + std::to_string(slot) + " belongs to a dead client";
    holds += record.holds;
  }
  for (const auto& [holder, slots] : holds_) {
    for (auto [slot, count] : slots) held += count;
  }
  if (holds != held)
    return "holds: " + std::to_string(holds) + " in the slots, " + std::to_string(held) + " in the table";
  std::sort(ranges.begin(), ranges.end(), [](Range a, Range b) { return a.offset < b.offset; });
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    total += ranges[i].size;
    if (i > 0 && ranges[i - 1].end() > ranges[i].offset) return "ranges overlap at " + std::to_string(ranges[i].offset);
  }
  if (total != allocator_.used())
    return "allocator: " + std::to_string(allocator_.used()) + " used, " + std::to_string(total) + " accounted for";
  return {};
}

}  // namespace troupe::store
