// The peers of an endpoint: a fixed set of slots, and the way from a ProcessId to its slot.
//
// A slot's Peer object lives as long as the endpoint and is used again for other processes, so a pointer to it is
// always good; whether it still is the process that was meant is asked under its mutex (PE-2).
//
// Thread rule: find, get: any thread, find without a lock (but where it overlaps a change). insert, erase: any thread,
// one at a time (own mutex).
//
// Invariants
//   PE-1  A find that overlaps an insert or erase never misses an id that was there before and after it.
//   PE-2  A Peer is set up under its mutex while kFree (attach), then made kOpen; it is torn down under its mutex by
//         the holder of the consumer role. So what does not change in between (marked "fixed") may be read under the
//         mutex, or as holder of the role, whenever state is not kFree.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/ids.h"
#include "core/net/endpoint/doorbell.h"
#include "core/net/ring/ring.h"

namespace troupe::net {

/// A message, or the rest of one, that waits for room.
struct QueuedMessage {
  FrameHeader header;
  std::unique_ptr<std::byte[]> payload;  // what of it is not in the ring yet
  std::size_t size = 0;                  // of payload
  std::size_t done = 0;                  // of payload, written since
  std::size_t sent_before = 0;           // payload bytes that went before `payload` begins
  bool started = false;
};

struct Peer {
  enum class State : std::uint8_t { kFree, kOpen, kBroken, kClosing };

  std::mutex mutex;
  std::atomic<State> state{State::kFree};  // a sender that finds the ring corrupt makes it kBroken, under mutex
  ProcessId id;                            // fixed
  PairMapping pair;                        // fixed

  // sending: under mutex
  RingWriter out;
  PeerDoorbell doorbell;
  std::uint32_t remote_slot = kNoSlot;  // of this pair in the peer's doorbell, once it told
  std::deque<QueuedMessage> outbox;
  std::atomic<std::size_t> backlog{0};  // bytes in outbox; read by anybody
  const char* defect = nullptr;         // why it is broken, when a sender found out

  // receiving: the holder of the consumer role
  RingReader in;
  bool visiting = false;  // a handler runs for a message of this peer
  bool told_broken = false;
  bool paused = false;    // its messages stay in its ring (NIN-5)

  bool usable() const noexcept { return state.load(std::memory_order_acquire) == State::kOpen; }
};

class PeerTable {
 public:
  PeerTable();
  ~PeerTable();
  PeerTable(const PeerTable&) = delete;
  PeerTable& operator=(const PeerTable&) = delete;

  /// The slot of a process, or kNoSlot.
  std::uint32_t find(ProcessId id) const noexcept;
  /// The Peer of a slot that has ever been used, else null.
  Peer* get(std::uint32_t slot) const noexcept {
    return slot < kReadyBits ? slots_[slot].load(std::memory_order_acquire) : nullptr;
  }
  /// A free slot for id; kNoSlot when none is left. The id must not be there.
  std::uint32_t insert(ProcessId id);
  void erase(ProcessId id);
  std::vector<ProcessId> ids() const;

 private:
  // Open addressing with linear probing, at most half full; key 0 is empty. Readers check version_ (a sequence lock).
  static constexpr std::size_t kBuckets = 2 * kReadyBits;
  struct Bucket {
    std::atomic<std::uint64_t> key;
    std::atomic<std::uint32_t> slot;
  };
  static std::uint64_t key_of(ProcessId id) { return id.key() + 1; }
  static std::size_t home_of(std::uint64_t key) { return (key * 0x9E3779B97F4A7C15u) >> 51; }
  std::uint32_t probe(std::uint64_t key) const noexcept;

  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> version_{0};
  Bucket* buckets_;  // zero pages until touched
  std::unique_ptr<std::atomic<Peer*>[]> slots_;
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;  // slots ever given
};
static_assert((std::size_t{1} << (64 - 51)) == 2 * kReadyBits);

}  // namespace troupe::net
