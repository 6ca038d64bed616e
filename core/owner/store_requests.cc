#include "core/owner/store_requests.h"

#include "objectstore/client/client.h"

namespace troupe::worker {

namespace {
/// A full store makes creation wait for room; a minute without any is a store that will not have it.
constexpr auto kRoomTimeout = std::chrono::seconds(60);

store::Lease lease_of(const wire::StoreLeaseReply& reply) {
  store::Lease lease{reply.chunk, {reply.offset, reply.size}, {}};
  for (auto [slot, generation] : reply.slots) lease.slots.push_back(slot);
  return lease;
}

ErrorPtr full(const ErrorPtr& error, std::uint64_t size) {
  if (error->code() != ErrorCode::kGetTimeout) return error;
  return make_error<ObjectStoreFullError>("the object store had no room for " + std::to_string(size) +
                                          " bytes for 60 s: what is in it is still in use");
}
}  // namespace

Result<store::Lease> StoreRequests::lease(const store::LeaseRequest& request) {
  auto reply = runtime_.requests().call<wire::StoreLeaseReply>(runtime_.daemon(), wire::Method::kStoreLease,
                                                               wire::StoreLeaseRequest{request.bytes, request.slots},
                                                               kRoomTimeout);
  if (!reply.ok()) return full(reply.error_ptr(), request.bytes);
  return lease_of(*reply);
}

void StoreRequests::lease_ahead(const store::LeaseRequest& request) {
  const bool held = runtime_.lock_held();
  auto ask = [this, request] {
    runtime_.requests().send<wire::StoreLeaseReply>(runtime_.daemon(), wire::Method::kStoreLease,
                                                    wire::StoreLeaseRequest{request.bytes, request.slots},
                                                    [this](Result<wire::StoreLeaseReply> reply) {
                                                      if (reply.ok()) runtime_.store().add_lease(lease_of(*reply));
                                                    });
  };
  if (held) return ask();
  CoreLock lock(runtime_);
  ask();
}

Result<store::Grant> StoreRequests::allocate(std::uint64_t size) {
  auto reply = runtime_.requests().call<wire::StoreAllocateReply>(runtime_.daemon(), wire::Method::kStoreAllocate,
                                                                  wire::StoreAllocateRequest{size}, kRoomTimeout);
  if (!reply.ok()) return full(reply.error_ptr(), size);
  return store::Grant{{runtime_.self().node, reply->slot, reply->generation}, {reply->offset, reply->size}};
}

void StoreRequests::maybe_free(std::span<const store::BufferId> ids) {
  wire::StoreFree message;
  for (const auto& id : ids) message.slots.emplace_back(id.slot, id.generation);
  runtime_.frames().notice_daemon(wire::Method::kStoreFree, message);
}

void StoreRequests::give_back(std::span<const store::ReturnedChunk> chunks,
                              std::span<const std::uint32_t> unused_slots) {
  wire::StoreFree message;
  for (const auto& chunk : chunks) {
    message.chunks.push_back(chunk.chunk);
    message.chunk_shared.push_back(chunk.shared);
  }
  message.unused_slots.assign(unused_slots.begin(), unused_slots.end());
  runtime_.frames().notice_daemon(wire::Method::kStoreFree, message);
}

}  // namespace troupe::worker
