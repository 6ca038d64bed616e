#include "core/net/endpoint/peers.h"

#include <cstdlib>
#include <new>

namespace troupe::net {

PeerTable::PeerTable()
    : buckets_(static_cast<Bucket*>(std::calloc(kBuckets, sizeof(Bucket)))),
      slots_(std::make_unique<std::atomic<Peer*>[]>(kReadyBits)) {
  if (!buckets_) throw std::bad_alloc();
}

PeerTable::~PeerTable() {
  for (std::uint32_t slot = 0; slot < used_; ++slot) delete get(slot);
  std::free(buckets_);
}

std::uint32_t PeerTable::probe(std::uint64_t key) const noexcept {
  std::size_t at = home_of(key);
  for (std::size_t steps = 0; steps < kBuckets; ++steps, at = (at + 1) % kBuckets) {
    const std::uint64_t found = buckets_[at].key.load(std::memory_order_acquire);
    if (found == key) return buckets_[at].slot.load(std::memory_order_acquire);
    if (found == 0) break;
  }
  return kNoSlot;
}

std::uint32_t PeerTable::find(ProcessId id) const noexcept {
  const std::uint64_t key = key_of(id);
  if (const std::uint64_t before = version_.load(std::memory_order_acquire); before % 2 == 0) {
    const std::uint32_t slot = probe(key);
    if (version_.load(std::memory_order_relaxed) == before) return slot;
  }
  std::lock_guard lock(mutex_);
  return probe(key);
}

std::uint32_t PeerTable::insert(ProcessId id) {
  std::lock_guard lock(mutex_);
  std::uint32_t slot;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else if (used_ < kReadyBits) {
    slot = used_++;
    slots_[slot].store(new Peer, std::memory_order_release);
  } else {
    return kNoSlot;
  }
  const std::uint64_t key = key_of(id);
  std::size_t at = home_of(key);
  while (buckets_[at].key.load(std::memory_order_relaxed) != 0) at = (at + 1) % kBuckets;
  version_.fetch_add(1, std::memory_order_acq_rel);
  buckets_[at].slot.store(slot, std::memory_order_release);
  buckets_[at].key.store(key, std::memory_order_release);
  version_.fetch_add(1, std::memory_order_acq_rel);
  return slot;
}

void PeerTable::erase(ProcessId id) {
  std::lock_guard lock(mutex_);
  const std::uint64_t key = key_of(id);
  std::size_t at = home_of(key);
  while (buckets_[at].key.load(std::memory_order_relaxed) != key) {
    if (buckets_[at].key.load(std::memory_order_relaxed) == 0) return;
    at = (at + 1) % kBuckets;
  }
  free_.push_back(buckets_[at].slot.load(std::memory_order_relaxed));
  version_.fetch_add(1, std::memory_order_acq_rel);
  // Close the gap: whatever follows in the run and may stand nearer to its home moves up.
  for (std::size_t next = (at + 1) % kBuckets;; next = (next + 1) % kBuckets) {
    const std::uint64_t moved = buckets_[next].key.load(std::memory_order_relaxed);
    if (moved == 0) break;
    const std::size_t from_home = (next + kBuckets - home_of(moved)) % kBuckets;
    if (from_home < (next + kBuckets - at) % kBuckets) continue;
    buckets_[at].slot.store(buckets_[next].slot.load(std::memory_order_relaxed), std::memory_order_release);
    buckets_[at].key.store(moved, std::memory_order_release);
    at = next;
  }
  buckets_[at].key.store(0, std::memory_order_release);
  version_.fetch_add(1, std::memory_order_acq_rel);
}

std::vector<ProcessId> PeerTable::ids() const {
  std::lock_guard lock(mutex_);
  std::vector<ProcessId> ids;
  for (std::size_t at = 0; at < kBuckets; ++at) {
    if (const std::uint64_t key = buckets_[at].key.load(std::memory_order_relaxed); key != 0) {
      ids.push_back({static_cast<std::uint32_t>((key - 1) >> 32), static_cast<std::uint32_t>(key - 1)});
    }
  }
  return ids;
}

}  // namespace troupe::net
