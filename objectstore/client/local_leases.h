// LocalLeases: what a client has leased and how it cuts it up. Pure: offsets and slot numbers only.
//
//     idle --take--> current --full--> retired --last local buffer gone--> idle again (nothing shared), or returned
//
// When the store is tight (trim, or a lease that says so) nothing is kept idle: what becomes empty is given back.
//
// A buffer is local until it is shared (then the daemon frees it and this book only remembers the number) or put back.
//
// Invariants
//   LL-1  A chunk is returned only when none of its buffers is local, together with the number of those that were
//         shared.
//   LL-2  A chunk's bytes are cut anew only when none of its buffers was ever shared and none is local.
//   LL-3  The buffer made last and put back first leaves its bytes to the next one: put, drop, put runs on the same
//         lines.
//
// Thread rule: one thread at a time (the client's mutex).
#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "objectstore/client/store_daemon.h"

namespace troupe::store {

struct LocalLeaseOptions {
  std::uint64_t chunk_bytes = 256 << 10, chunk_bytes_max = 1 << 20;
  std::uint32_t slots = 256, slots_max = 1024;
};

class LocalLeases {
 public:
  struct Allocation {
    std::uint32_t slot = 0;
    std::uint32_t chunk = 0;  ///< index in this book
    std::uint64_t offset = 0;
  };
  struct GiveBack {
    std::vector<ReturnedChunk> chunks;
    std::vector<std::uint32_t> slots;
    bool empty() const { return chunks.empty() && slots.empty(); }
  };

  explicit LocalLeases(LocalLeaseOptions options)
      : options_(options), next_bytes_(options.chunk_bytes), next_slots_(options.slots) {}

  void add(Lease lease);
  /// Bytes and a slot for a buffer of this (rounded) size, or nothing: then ask the daemon for next_request().
  std::optional<Allocation> take(std::uint64_t size);
  /// The buffer was dropped unshared.
  void put_back(Allocation allocation, std::uint64_t size);
  /// The buffer's id leaves the process: the daemon will free it.
  void share(std::uint32_t chunk);
  /// What to ask for so that a buffer of this size fits. Each answer makes the next request larger, up to the maximum.
  LeaseRequest next_request(std::uint64_t size);
  /// When little is left and nothing was asked for since the last lease: what to ask for. A refusal leaves it asked.
  std::optional<LeaseRequest> ask_ahead();
  /// Empty chunks and free slots go on the list of what is given back; tight until a lease says otherwise.
  void trim();
  bool tight() const { return tight_; }
  bool has_give_back() const { return !out_.empty(); }
  GiveBack take_give_back() { return std::exchange(out_, {}); }

  std::size_t chunks_held() const { return chunks_.size() - free_indexes_.size(); }
  std::size_t slots_held() const { return slots_.size(); }

 private:
  static constexpr std::uint32_t kNone = ~0u;
  static constexpr std::size_t kIdleKept = 2;
  struct Chunk {
    std::uint32_t id = 0;
    Range range;
    std::uint64_t bump = 0;  ///< absolute
    std::uint32_t local = 0, shared = 0;
  };

  void left(std::uint32_t index);
  void retire_current();
  void settle(std::uint32_t index);
  void give_back_chunk(std::uint32_t index);

  LocalLeaseOptions options_;
  std::uint64_t next_bytes_;
  std::uint32_t next_slots_;
  bool asked_ahead_ = false, tight_ = false;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> free_indexes_, idle_, slots_;
  std::uint32_t current_ = kNone;
  GiveBack out_;
};

}  // namespace troupe::store
