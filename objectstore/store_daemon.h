// StoreDaemon: what a StoreClient asks of its node's daemon. The worker runtime implements it with messages; tests
// implement it with direct calls on a StoreServer.
//
// Thread rule: every function may be called from any thread that uses the client, several at once. The client holds no
// lock of its own during a call. lease and allocate may block (fiber or thread); the others only post and must not
// block.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/result.h>
#include "objectstore/buffer_id.h"

namespace troupe::store {

/// A chunk of the arena and slots for the buffers that will be made in it. Either part may be absent (size 0, no
/// slots).
struct Lease {
  std::uint32_t chunk = 0;  ///< daemon's name of the chunk, from 1; 0: no chunk in this lease
  Range range;
  std::vector<std::uint32_t> slots;  ///< their generations stand in the index
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

class StoreDaemon {
 public:
  virtual ~StoreDaemon() = default;
  /// Waits for a lease. Back-pressure of a full store is felt here; the implementation sets the deadline.
  virtual Result<Lease> lease(const LeaseRequest& request) = 0;
  /// Asks for a lease ahead of need; the answer goes to StoreClient::add_lease, a refusal nowhere. It is only a hint.
  virtual void lease_ahead(const LeaseRequest& request) = 0;
  /// Waits for a large buffer.
  virtual Result<Grant> allocate(std::uint64_t size) = 0;
  /// These buffers are no longer pinned by this process (or were large and never sealed).
  virtual void maybe_free(std::span<const BufferId> ids) = 0;
  /// Gives back a chunk, or only slots that are not needed.
  virtual void give_back(std::span<const ReturnedChunk> chunks, std::span<const std::uint32_t> unused_slots) = 0;
};

}  // namespace troupe::store
