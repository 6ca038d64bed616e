// The shared-memory layout of a store: what daemon and clients see in the index and in the pin tables.
//
// Three kinds of memfd: the arena (bytes), the index (one entry a slot), and one pin table a client. All are sparse
// files of their full size: memory is used where it is touched.
//
// A slot's word holds its generation and its state:
//
//            daemon leases             maker seals                 daemon (or maker, if never shared) wants to free
//     free ----------------> leased ----------------> sealed ------------------------------------------> doomed
//      ^                       ^  ^                      ^                                                 |  |
//      |                       |  |                      +---- a pin was found: generation unchanged ------+  |
//      |                       |  +----------- maker recycles it itself: generation + 1 ----------------------+
//      +-----------------------+---------------- nobody pins it: generation + 1 ------------------------------+
//
// Invariants
//   SL-1  One writer at a time: free and doomed belong to the daemon; leased to the client that leased it; sealed to
//         the daemon, or to the maker as long as the id was never given to another process. Which of the two holds for
//         a small buffer says `shared`, which the maker sets before the id leaves its process. A dead client's slots
//         are the daemon's.
//   SL-2  offset and size are written before the word says sealed and never change while it does.
//   SL-3  Reader: raise the own pin, then read the word. Freer: write doomed, then read all pins. All four sequentially
//         consistent, so at least one of the two sees the other: no memory is reused under a pin.
//   SL-4  A pin table has one writing process. Nobody waits for anybody in shared memory: there is no lock to die with.
//   SL-5  touched[b] is set before the first pin in block b: an untouched block needs no look.
//   SL-6  A reader that takes its pin back unused (a stale id) may have been seen by a freer, who then gave up: it
//         reports the slot as if it had dropped it. So nothing stays allocated for want of a report.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace troupe::store {

inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::uint64_t kCacheLine = 64;
inline constexpr std::uint32_t kSlotLimitMax = 1u << 20;
inline constexpr std::uint32_t kPinBlockSlots = 256;  ///< slots that share one touched flag

enum class SlotState : std::uint32_t { kFree = 0, kLeased = 1, kSealed = 2, kDoomed = 3 };

struct SlotWord {
  std::uint32_t generation = 0;
  SlotState state = SlotState::kFree;
  bool operator==(const SlotWord&) const = default;
};
constexpr std::uint64_t pack(SlotWord word) { return std::uint64_t(word.generation) << 32 | std::uint32_t(word.state); }
constexpr SlotWord unpack(std::uint64_t raw) { return {std::uint32_t(raw >> 32), SlotState(std::uint32_t(raw))}; }
/// The generation after this one; never 0, which is nil.
constexpr std::uint32_t next_generation(std::uint32_t generation) { return generation + 1 == 0 ? 1 : generation + 1; }

struct IndexEntry {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> offset;
  std::atomic<std::uint64_t> size;
  std::atomic<std::uint64_t> shared;  ///< the last generation whose id its maker let out of its process (SL-1)
};
static_assert(sizeof(IndexEntry) == 32 && std::atomic<std::uint64_t>::is_always_lock_free);

/// A pin table: the touched flags, then one count a slot.
struct PinTableLayout {
  static constexpr std::uint64_t kTouchedBytes = kSlotLimitMax / kPinBlockSlots;
  static constexpr std::uint64_t bytes(std::uint32_t slots) { return kTouchedBytes + std::uint64_t(slots) * 4; }
};
static_assert(PinTableLayout::kTouchedBytes == kPageBytes && std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && sizeof(std::atomic<std::uint8_t>) == 1);

/// What a client must know to map a store; travels beside the descriptors.
struct StoreLayout {
  std::uint32_t node = 0;
  std::uint32_t slots = 0;       ///< entries in the index and in each pin table
  std::uint64_t capacity = 0;    ///< bytes of the arena
  std::uint64_t large_from = 0;  ///< buffers of this size and above have a range of their own
};

}  // namespace troupe::store
