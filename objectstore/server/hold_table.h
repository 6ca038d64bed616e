// HoldTable: counted holds of slots by processes without a pin table (processes of other nodes, the daemon itself).
// Pure.
//
// Invariants
//   HT-1  total() is the sum of all counts; a count of zero is not kept.
//
// Thread rule: one thread at a time.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"

namespace troupe::store {

class HoldTable {
 public:
  using Counts = std::unordered_map<std::uint32_t, std::uint32_t>;  ///< slot, count

  void add(ProcessId holder, std::uint32_t slot);
  /// One hold less. False: this holder has none of that slot.
  bool remove(ProcessId holder, std::uint32_t slot);
  /// All holds of a holder, which are forgotten.
  Counts take(ProcessId holder);
  std::vector<ProcessId> holders_of_node(std::uint32_t node) const;
  std::uint64_t total() const;

 private:
  std::unordered_map<ProcessId, Counts, IdHash> holds_;
};

}  // namespace troupe::store
