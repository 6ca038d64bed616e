// StoreRequests: what the store's client asks of the node daemon, as messages.
//
// Thread rule: as StoreDaemon says; lease and allocate wait and are called without the lock.
#pragma once
#include "core/wire/messages.h"
#include "core/runtime/runtime.h"
#include "objectstore/client/store_daemon.h"

namespace troupe::worker {

class StoreRequests final : public store::StoreDaemon {
 public:
  explicit StoreRequests(Runtime& runtime) : runtime_(runtime) {}
  Result<store::Lease> lease(const store::LeaseRequest& request) override;
  void lease_ahead(const store::LeaseRequest& request) override;
  Result<store::Grant> allocate(std::uint64_t size) override;
  void maybe_free(std::span<const store::BufferId> ids) override;
  void give_back(std::span<const store::ReturnedChunk> chunks, std::span<const std::uint32_t> unused_slots) override;

 private:
  Runtime& runtime_;
};

}  // namespace troupe::worker
