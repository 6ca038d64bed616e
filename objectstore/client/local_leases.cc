#include "objectstore/client/local_leases.h"

#include <algorithm>

namespace troupe::store {

void LocalLeases::add(Lease lease) {
  asked_ahead_ = false;
  tight_ = lease.tight;
  slots_.insert(slots_.end(), lease.slots.rbegin(), lease.slots.rend());
  if (lease.chunk == 0) return;
  std::uint32_t index;
  if (free_indexes_.empty()) {
    index = std::uint32_t(chunks_.size());
    chunks_.emplace_back();
  } else {
    index = free_indexes_.back();
    free_indexes_.pop_back();
  }
  chunks_[index] = {.id = lease.chunk, .range = lease.range, .bump = lease.range.offset, .local = 0, .shared = 0};
  idle_.push_back(index);
}

std::optional<LocalLeases::Allocation> LocalLeases::take(std::uint64_t size) {
  if (slots_.empty()) return std::nullopt;
  while (current_ == kNone || chunks_[current_].range.end() - chunks_[current_].bump < size) {
    if (current_ != kNone) retire_current();
    if (idle_.empty()) return std::nullopt;
    current_ = idle_.back();
    idle_.pop_back();
    if (chunks_[current_].range.size < size) {  // cannot be: leases are at least large_from
      give_back_chunk(std::exchange(current_, kNone));
      return std::nullopt;
    }
  }
  Chunk& chunk = chunks_[current_];
  Allocation allocation{slots_.back(), current_, chunk.bump};
  slots_.pop_back();
  chunk.bump += size;
  ++chunk.local;
  return allocation;
}

void LocalLeases::put_back(Allocation allocation, std::uint64_t size) {
  (tight_ ? out_.slots : slots_).push_back(allocation.slot);
  Chunk& chunk = chunks_[allocation.chunk];
  if (chunk.bump == allocation.offset + size) chunk.bump = allocation.offset;  // LL-3
  left(allocation.chunk);
}

void LocalLeases::share(std::uint32_t chunk) {
  ++chunks_[chunk].shared;
  left(chunk);
}

/// A buffer is no longer local.
void LocalLeases::left(std::uint32_t index) {
  Chunk& chunk = chunks_[index];
  --chunk.local;
  if (chunk.local > 0) return;
  if (index != current_) settle(index);
  else if (tight_) give_back_chunk(std::exchange(current_, kNone));
  else if (chunk.shared == 0) chunk.bump = chunk.range.offset;  // LL-2
}

void LocalLeases::retire_current() {
  std::uint32_t index = std::exchange(current_, kNone);
  if (chunks_[index].local == 0) settle(index);
}

void LocalLeases::settle(std::uint32_t index) {
  Chunk& chunk = chunks_[index];
  if (chunk.shared > 0 || tight_ || idle_.size() >= kIdleKept) return give_back_chunk(index);
  chunk.bump = chunk.range.offset;
  idle_.push_back(index);
}

void LocalLeases::give_back_chunk(std::uint32_t index) {
  out_.chunks.push_back({chunks_[index].id, chunks_[index].shared});
  free_indexes_.push_back(index);
}

LeaseRequest LocalLeases::next_request(std::uint64_t size) {
  LeaseRequest request;
  bool fits = current_ != kNone && chunks_[current_].range.end() - chunks_[current_].bump >= size;
  if (!fits && idle_.empty()) {
    request.bytes = next_bytes_;
    next_bytes_ = std::min(next_bytes_ * 2, options_.chunk_bytes_max);
  }
  if (slots_.size() < next_slots_ / 2) {
    request.slots = next_slots_;
    next_slots_ = std::min(next_slots_ * 2, options_.slots_max);
  }
  return request;
}

std::optional<LeaseRequest> LocalLeases::ask_ahead() {
  if (asked_ahead_ || current_ == kNone) return std::nullopt;
  const Chunk& chunk = chunks_[current_];
  bool little_memory = idle_.empty() && chunk.range.end() - chunk.bump < chunk.range.size / 4;
  bool few_slots = slots_.size() < options_.slots / 4;
  if (!little_memory && !few_slots) return std::nullopt;
  asked_ahead_ = true;
  LeaseRequest request = next_request(little_memory ? chunk.range.size + 1 : 0);
  request.ahead = true;
  return request;
}

void LocalLeases::trim() {
  tight_ = true;
  for (std::uint32_t index : idle_) give_back_chunk(index);
  idle_.clear();
  if (current_ != kNone && chunks_[current_].local == 0) give_back_chunk(std::exchange(current_, kNone));
  out_.slots.insert(out_.slots.end(), slots_.begin(), slots_.end());
  slots_.clear();
  next_bytes_ = options_.chunk_bytes;
  next_slots_ = options_.slots;
}

}  // namespace troupe::store
