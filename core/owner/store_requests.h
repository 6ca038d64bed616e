// StoreRequests: what the store's client asks of the node daemon, as messages.
//
//   ask --kStoreLease, kStoreAllocate--> WAITING --grant, error--> answered
//                                           |  cancelled, or no answer within Patience
//                                           +--kStoreWithdraw--> GIVEN UP --error--> gone
//                                                                   +--a grant that was on its way--> given back
//
// Invariants
//   OSR-1  A request that nobody waits for any more is withdrawn; a grant that crosses the withdrawal goes back. So
//          memory is leased to those only who know of it.
//   OSR-2  Whoever waits for memory longer than Patience::says_why says so in the log, once.
//
// Thread rule: as StoreDaemon says; lease and allocate wait and are called without the lock.
#pragma once
#include "core/wire/messages.h"
#include "core/runtime/runtime.h"
#include "objectstore/client/store_daemon.h"

namespace troupe::worker {

class StoreRequests final : public store::StoreDaemon {
 public:
  struct Patience {
    Duration says_why = std::chrono::seconds(5);
    /// The daemon gives up earlier (kStoreWait) and says what is in the store: this is for one that does not answer.
    Duration gives_up = std::chrono::seconds(70);
  };
  explicit StoreRequests(Runtime& runtime) : StoreRequests(runtime, Patience()) {}
  StoreRequests(Runtime& runtime, Patience patience) : runtime_(runtime), patience_(patience) {}
  Result<store::Lease> lease(const store::LeaseRequest& request) override;
  void lease_ahead(const store::LeaseRequest& request) override;
  Result<store::Grant> allocate(std::uint64_t size) override;
  void maybe_free(std::span<const store::BufferId> ids) override;
  void give_back(std::span<const store::ReturnedChunk> chunks, std::span<const std::uint32_t> unused_slots) override;

 private:
  template <class Reply> struct Asked;
  template <class Reply, class M> Result<Reply> ask(wire::Method method, const M& message, std::uint64_t bytes);
  void return_grant(const wire::StoreLeaseReply& reply);
  void return_grant(const wire::StoreAllocateReply& reply);

  Runtime& runtime_;
  const Patience patience_;
};

}  // namespace troupe::worker
