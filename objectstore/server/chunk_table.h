// ChunkTable: the chunks that clients have leased, and how many of the buffers in them the daemon has freed. Pure.
//
//     leased --returned(shared)--> returned --freed reaches expected--> empty: the range goes back to the allocator
//        +------orphaned(live)---> returned, without an owner
//
// Invariants
//   CH-1  A chunk is empty when it was returned and every buffer that the client left in it was freed.
//
// Thread rule: one thread at a time.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "objectstore/arena/buffer_id.h"

namespace troupe::store {

class ChunkTable {
 public:
  struct Chunk {
    std::uint32_t id = 0;
    ProcessId owner;  ///< {0,0}: orphaned
    Range range;
    bool returned = false;
    std::uint64_t freed = 0;     ///< buffers freed in it by the daemon, over the whole lease
    std::uint64_t expected = 0;  ///< when returned: how many will have been freed in the end
  };

  std::uint32_t add(ProcessId owner, Range range);
  /// The chunk of this owner in which the whole range lies.
  Chunk* containing(Range range, ProcessId owner);
  Chunk* find(std::uint32_t id);
  /// The client returned it. The chunk's range when that made it empty.
  std::optional<Range> returned(Chunk& chunk, std::uint64_t shared);
  /// A buffer in it was freed. The chunk's range when that made it empty.
  std::optional<Range> freed_one(Chunk& chunk);
  /// Its owner died and left `live` buffers in it.
  std::optional<Range> orphaned(Chunk& chunk, std::uint64_t live);
  std::vector<std::uint32_t> owned_by(ProcessId owner) const;

  std::uint64_t bytes() const { return bytes_; }
  template <class F>
  void each(F&& visit) const {
    for (const auto& [offset, chunk] : by_offset_) visit(chunk);
  }

 private:
  std::optional<Range> erase_if_empty(Chunk& chunk);

  std::map<std::uint64_t, Chunk> by_offset_;
  std::unordered_map<std::uint32_t, std::uint64_t> offset_of_;
  std::uint32_t next_id_ = 1;
  std::uint64_t bytes_ = 0;
};

}  // namespace troupe::store
