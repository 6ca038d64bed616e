// StoreDaemon: what a StoreClient asks of its node's daemon. The worker runtime implements it with messages; tests
// implement it with direct calls on a StoreServer.
//
// Thread rule: every function may be called from any thread that uses the client, several at once. The client holds no
// lock of its own during a call. lease and allocate may block (fiber or thread); the others only post and must not
// block.
#pragma once
#include <cstdint>
#include <span>

#include <troupe/result.h>
#include "objectstore/arena/lease.h"

namespace troupe::store {

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
