// SlotIndex: the daemon's mapping of the shared index: one word, offset and size a slot (arena/layout.h).
//
// Thread rule: one thread at a time; clients write the same memory meanwhile, by the rules of layout.h.
//
// Invariants
//   SX-1  doom() succeeds for one caller only: of a daemon and a maker that free the same buffer at once, one loses.
#pragma once
#include <atomic>
#include <cstdint>

#include <troupe/result.h>
#include "core/base/fd.h"
#include "objectstore/arena/buffer_id.h"
#include "objectstore/arena/layout.h"
#include "objectstore/arena/shared_memory.h"

namespace troupe::store {

class SlotIndex {
 public:
  Status open(std::uint32_t slots);
  const UniqueFd& fd() const { return fd_; }

  SlotWord word(std::uint32_t slot) const { return unpack(entry(slot).word.load(std::memory_order_acquire)); }
  void set_word(std::uint32_t slot, SlotWord word) { entry(slot).word.store(pack(word), std::memory_order_seq_cst); }
  /// Leased in its present generation; which one that is.
  std::uint32_t lease(std::uint32_t slot);
  /// Free, with the next generation: whoever remembers the present one finds nothing.
  void free(std::uint32_t slot, std::uint32_t generation) {
    set_word(slot, {next_generation(generation), SlotState::kFree});
  }
  /// sealed to doomed (SL-3). False: it was not sealed with that generation any more.
  bool doom(std::uint32_t slot, SlotWord sealed);

  Range bytes_of(std::uint32_t slot) const;
  void set_bytes(std::uint32_t slot, Range bytes);
  /// Did the maker say that the id of this generation may reach other processes (SL-1)?
  bool shared(std::uint32_t slot, std::uint32_t generation) const {
    return entry(slot).shared.load(std::memory_order_acquire) == generation;
  }

 private:
  IndexEntry& entry(std::uint32_t slot) const { return reinterpret_cast<IndexEntry*>(map_.data())[slot]; }

  UniqueFd fd_;
  Mapping map_;
};

}  // namespace troupe::store
