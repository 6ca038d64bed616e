// CopyTable: which buffers of other nodes have a copy here, being filled or present, and which of them was used least.
// Pure.
//
// Invariants
//   CT-1  One copy a remote id; one remote id a local slot.
//   CT-2  Only present copies are offered for eviction. A copy whose origin is gone is not found once it is present;
//         while it is being filled it is, by whoever fills it.
//
// Thread rule: one thread at a time.
#pragma once
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "objectstore/arena/buffer_id.h"

namespace troupe::store {

class CopyTable {
 public:
  enum class State { kFilling, kPresent };
  struct Copy {
    BufferId remote, local;
    State state = State::kFilling;
    bool origin_gone = false;
  };

  /// The remote id must be unknown.
  void begin(BufferId remote, BufferId local);
  bool finish(BufferId remote);  ///< false: not filling
  const Copy* find(BufferId remote) const;
  const Copy* at_slot(std::uint32_t local_slot) const;
  void touch(std::uint32_t local_slot);  ///< used now
  /// The copy is found no more by its remote id (CT-2), but keeps its slot until erase_slot.
  void mark_origin_gone(BufferId remote);
  /// Copies, filling or present, of buffers of that node.
  std::vector<BufferId> of_node(std::uint32_t node) const;
  void erase_slot(std::uint32_t local_slot);
  std::size_t size() const { return by_slot_.size(); }
  /// Present copies, used least recently first.
  template <class F>
  void each_least_recent(F&& visit) const {
    for (std::uint32_t slot : lru_) visit(by_slot_.at(slot).copy);
  }

 private:
  struct Node {
    Copy copy;
    std::list<std::uint32_t>::iterator place;  ///< in lru_, when present
  };
  std::unordered_map<BufferId, std::uint32_t, BufferIdHash> by_remote_;
  std::unordered_map<std::uint32_t, Node> by_slot_;
  std::list<std::uint32_t> lru_;  ///< least recent first
};

}  // namespace troupe::store
