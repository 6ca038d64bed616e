// SlotTable: the daemon's private book of the slots of its index: who has which, and which bytes belong to it. Pure.
//
//     free --lease--> small (leased to a client; bytes are in one of its chunks, seen only in the index)
//      |------------> large (own range, leased to its maker)
//      |------------> copy  (own range, filled by the daemon)
//      +<--free_slot-- each of them
//
// Invariants
//   SLT-1  A slot is either in the free list (kind kFree) or leased exactly once.
//   SLT-2  Free slots are reused last in, first out; slots never used are taken in ascending order, and only when the
//          free list is empty, so that index pages are touched as late as possible.
//
// Thread rule: one thread at a time.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "objectstore/arena/buffer_id.h"

namespace troupe::store {

enum class SlotKind : std::uint8_t { kFree, kSmall, kLarge, kCopy };

struct SlotRecord {
  SlotKind kind = SlotKind::kFree;
  bool exported = false;    ///< another node held it once
  std::uint32_t holds = 0;  ///< by holders (server.h)
  ProcessId owner;          ///< {0,0}: nobody (copies, orphans)
  Range range;              ///< large and copy
};

class SlotTable {
 public:
  explicit SlotTable(std::uint32_t limit) : limit_(limit) {}

  std::optional<std::uint32_t> lease(SlotKind kind, ProcessId owner, Range range = {});
  void free_slot(std::uint32_t slot);
  SlotRecord& operator[](std::uint32_t slot) { return records_[slot]; }
  const SlotRecord& operator[](std::uint32_t slot) const { return records_[slot]; }
  /// Slots [0, frontier()) were used at least once.
  std::uint32_t frontier() const { return std::uint32_t(records_.size()); }
  std::uint32_t limit() const { return limit_; }
  std::uint32_t in_use() const { return frontier() - std::uint32_t(free_.size()); }
  std::uint32_t available() const { return limit_ - in_use(); }

 private:
  std::uint32_t limit_;
  std::vector<SlotRecord> records_;
  std::vector<std::uint32_t> free_;
};

}  // namespace troupe::store
