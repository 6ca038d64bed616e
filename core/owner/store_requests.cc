#include "core/owner/store_requests.h"

#include <fmt/format.h>

#include "core/runtime/waits.h"
#include "objectstore/client/client.h"

namespace troupe::worker {

namespace {

store::Lease lease_of(const wire::StoreLeaseReply& reply) {
  store::Lease lease{reply.chunk, {reply.offset, reply.size}, {}, reply.tight};
  for (auto [slot, generation] : reply.slots) lease.slots.push_back(slot);
  return lease;
}

/// What interrupts the caller, if anything does. Lock held.
ErrorPtr interruption(WaitScope& scope) {
  try {
    scope.check();
  } catch (const Error& error) {
    return Error::make(error.record());
  }
  return nullptr;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------- waiting

template <class Reply>
struct StoreRequests::Asked {
  std::optional<Result<Reply>> reply;
  exec::Waiter* waiter = nullptr;  ///< null: given up
};

/// The waiter only waits: a task that waits for memory keeps its CPUs, or the next one would come and wait as well.
template <class Reply, class M>
Result<Reply> StoreRequests::ask(wire::Method method, const M& message, std::uint64_t bytes) {
  auto asked = std::make_shared<Asked<Reply>>();
  exec::Waiter waiter(runtime_);
  WaitScope scope(runtime_, waiter);
  std::uint64_t token = 0;
  {
    CoreLock lock(runtime_);
    asked->waiter = &waiter;
    token = runtime_.requests().send<Reply>(runtime_.daemon(), method, message, [this, asked](Result<Reply> reply) {
      if (!asked->waiter) {
        if (reply.ok()) return_grant(*reply);  // OSR-1
        return;
      }
      asked->reply.emplace(std::move(reply));
      asked->waiter->notify();
    });
  }
  auto give_up = [&](ErrorPtr why) -> Result<Reply> {  // lock held
    asked->waiter = nullptr;
    runtime_.frames().notice(runtime_.daemon(), wire::Method::kStoreWithdraw, wire::StoreWithdraw{token});
    return why;
  };
  const exec::Deadline gives_up = exec::deadline_after(patience_.gives_up);
  exec::Deadline says_why = exec::deadline_after(patience_.says_why);
  for (bool in_time = true;;) {
    {
      CoreLock lock(runtime_);
      if (asked->reply) {
        asked->waiter = nullptr;
        return std::move(*asked->reply);
      }
      if (ErrorPtr why = interruption(scope)) return give_up(why);
      if (!in_time && exec::Deadline::clock::now() >= gives_up)
        return give_up(make_error<ObjectStoreFullError>(
            fmt::format("the node daemon did not answer a request for {} bytes of its object store", bytes)));
    }
    if (!in_time && exec::Deadline::clock::now() >= says_why) {
      says_why = exec::kNever;
      runtime_.warn(fmt::format("waiting for {} bytes of the object store, which is full; it goes on when arrays and "
                                "large values are dropped (--troupe-object-store-memory)",
                                bytes));
    }
    in_time = waiter.wait(std::min(says_why, gives_up));
  }
}

void StoreRequests::return_grant(const wire::StoreLeaseReply& reply) {
  const store::ReturnedChunk chunk{reply.chunk, 0};
  const store::Lease lease = lease_of(reply);
  give_back(std::span(&chunk, reply.chunk == 0 ? 0 : 1), lease.slots);
}

void StoreRequests::return_grant(const wire::StoreAllocateReply& reply) {
  const store::BufferId id{runtime_.self().node, reply.slot, reply.generation};
  maybe_free(std::span(&id, 1));
}

// -------------------------------------------------------------------------------------------------- store::StoreDaemon

Result<store::Lease> StoreRequests::lease(const store::LeaseRequest& request) {
  const wire::StoreLeaseRequest message{request.bytes, request.slots, false};
  auto reply = ask<wire::StoreLeaseReply>(wire::Method::kStoreLease, message, request.bytes);
  if (!reply.ok()) return reply.error_ptr();
  return lease_of(*reply);
}

void StoreRequests::lease_ahead(const store::LeaseRequest& request) {
  const bool held = runtime_.lock_held();
  auto send = [this, request] {
    runtime_.requests().send<wire::StoreLeaseReply>(
        runtime_.daemon(), wire::Method::kStoreLease, wire::StoreLeaseRequest{request.bytes, request.slots, true},
        [this](Result<wire::StoreLeaseReply> reply) {
          if (reply.ok()) runtime_.store().add_lease(lease_of(*reply));
        });
  };
  if (held) return send();
  CoreLock lock(runtime_);
  send();
}

Result<store::Grant> StoreRequests::allocate(std::uint64_t size) {
  auto reply = ask<wire::StoreAllocateReply>(wire::Method::kStoreAllocate, wire::StoreAllocateRequest{size}, size);
  if (!reply.ok()) return reply.error_ptr();
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
