// Lease, Grant and their relatives: what a client asks of its node's store server and what it gets.
//
// Thread rule: values.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "objectstore/arena/buffer_id.h"

namespace troupe::store {

/// A chunk of the arena and slots for the buffers that will be made in it. Either part may be absent (size 0, no
/// slots).
struct Lease {
  std::uint32_t chunk = 0;  ///< daemon's name of the chunk, from 1; 0: no chunk in this lease
  Range range;
  std::vector<std::uint32_t> slots;  ///< their generations stand in the index
  bool tight = false;                ///< others wait for memory: give back what becomes empty, keep nothing for reuse
};

struct LeaseRequest {
  std::uint64_t bytes = 0;  ///< of chunk; the daemon may give less, never under large_from; 0: slots only
  std::uint32_t slots = 0;
  bool ahead = false;  ///< of need: refused instead of queued when there is no room
};

/// A large buffer, leased to its maker.
struct Grant {
  BufferId id;
  Range range;  ///< page aligned; size is what was asked
};

/// The client is done with a chunk: every buffer that is still in it is one that the daemon will free.
struct ReturnedChunk {
  std::uint32_t chunk = 0;
  std::uint32_t shared = 0;  ///< how many buffers the daemon frees or has freed in it, over the whole lease
};

/// No call of maybe_free or give_back is longer: each fits a small frame.
inline constexpr std::size_t kIdsPerCall = 128;
inline constexpr std::size_t kChunksPerCall = 64;
inline constexpr std::size_t kSlotsPerCall = 1024;

}  // namespace troupe::store
