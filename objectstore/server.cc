// Opening the store, clients, and granting; freeing is in server_free.cc, copies are in server_copies.cc.
#include "objectstore/server.h"

#include <algorithm>
#include <string>
#include <utility>

namespace troupe::store {

std::string to_string(BufferId id) {
  return std::to_string(id.node) + ":" + std::to_string(id.slot) + ":" + std::to_string(id.generation);
}

StoreServer::StoreServer(const StoreServerOptions& options)
    : options_(options), allocator_(options.capacity), slots_(options.slots), pins_(options.slots) {
  layout_ = {.node = options.node,
             .slots = options.slots,
             .capacity = allocator_.capacity(),
             .large_from = options.large_from};
}

Result<std::unique_ptr<StoreServer>> StoreServer::create(StoreServerOptions options) {
  if (options.slots == 0 || options.slots > kSlotLimitMax) {
    return InvalidArgumentError("an object store has 1 to " + std::to_string(kSlotLimitMax) + " slots, not " +
                                std::to_string(options.slots));
  }
  if (options.large_from < kPageBytes || options.large_from > options.chunk_bytes_max) {
    return InvalidArgumentError("large_from must lie between 4 KiB and chunk_bytes_max");
  }
  std::unique_ptr<StoreServer> server(new StoreServer(options));
  if (Status status = server->open(); !status.ok()) return status.error_ptr();
  return server;
}

Status StoreServer::open() {
  auto arena = Arena::create({.capacity = options_.capacity, .populate = options_.populate});
  if (!arena.ok()) return arena.error_ptr();
  arena_ = std::move(*arena);
  std::uint64_t bytes = std::uint64_t(options_.slots) * sizeof(IndexEntry);
  auto fd = make_memfd("troupe-index", bytes);
  if (!fd.ok()) return fd.error_ptr();
  index_fd_ = std::move(*fd);
  auto map = Mapping::read_write(index_fd_, bytes);
  if (!map.ok()) return map.error_ptr();
  index_ = std::move(*map);
  return {};
}

Result<StoreHandles> StoreServer::add_client(ProcessId client) {
  if (clients_.contains(client))
    return InvalidArgumentError("store client " + std::to_string(client.serial) + " is already known");
  StoreHandles handles;
  handles.layout = layout_;
  const std::pair<UniqueFd*, const UniqueFd*> shared[] = {{&handles.arena_write, &arena_->fd()},
                                                          {&handles.arena_read, &arena_->read_only_fd()},
                                                          {&handles.index, &index_fd_}};
  for (auto [to, from] : shared) {
    auto copy = duplicate(*from);
    if (!copy.ok()) return copy.error_ptr();
    *to = std::move(*copy);
  }
  auto pins = pins_.add(client);
  if (!pins.ok()) return pins.error_ptr();
  handles.pins = std::move(*pins);
  clients_[client] = {};
  return handles;
}

void StoreServer::client_closing(ProcessId client) {
  auto found = clients_.find(client);
  if (found == clients_.end()) return;
  found->second.closing = true;
  drop_requests(client);
  serve_queues();
}

bool StoreServer::may_ask(ProcessId client) const {
  auto found = clients_.find(client);
  return found != clients_.end() && !found->second.closing;
}

// ---- requests

void StoreServer::lease(ProcessId client, Token token, const LeaseRequest& request, TimePoint deadline) {
  if (!may_ask(client)) return;
  ask(waiting_leases_,
      {.kind = Waiting::Kind::kLease, .client = client, .token = token, .lease = request, .deadline = deadline});
}

void StoreServer::allocate(ProcessId client, Token token, std::uint64_t size, TimePoint deadline) {
  if (!may_ask(client)) return;
  Waiting request{
      .kind = Waiting::Kind::kAllocate, .client = client, .token = token, .size = size, .deadline = deadline};
  if (size > layout_.capacity) {
    return fail(request, make_error<ObjectStoreFullError>(
                             "a buffer of " + std::to_string(size) + " bytes can never fit: the object store of node " +
                             std::to_string(layout_.node) + " holds " + std::to_string(layout_.capacity) +
                             " bytes (raise object_store_memory)"));
  }
  ask(waiting_large_, std::move(request));
}

void StoreServer::ask(Waiters& queue, Waiting request) {
  if (queue.empty() && try_grant(request) == Outcome::kDone) return;
  if (request.lease.ahead) return fail(request, make_error<ObjectStoreFullError>("no room for a lease ahead of need"));
  if (waiting_leases_.empty() && waiting_large_.empty()) {  // it has just become tight: what lies idle is wanted back
    for (const auto& [client, state] : clients_) {
      if (!state.closing) effects_.push_back(TrimAsked{client});
    }
  }
  queue.push_back(std::move(request));
}

StoreServer::Outcome StoreServer::try_grant(const Waiting& request) {
  switch (request.kind) {
    case Waiting::Kind::kLease: return grant_lease(request);
    case Waiting::Kind::kAllocate: return grant_buffer(request);
    case Waiting::Kind::kCopy: return grant_copy(request);
  }
  return Outcome::kDone;
}

StoreServer::Outcome StoreServer::grant_lease(const Waiting& request) {
  std::uint32_t slots = std::min(request.lease.slots, options_.lease_slots_max);
  if (slots > 0 && slots_.available() == 0) return Outcome::kNoRoom;
  Lease lease;
  if (request.lease.bytes > 0) {
    std::uint64_t size = std::clamp(request.lease.bytes, layout_.large_from, options_.chunk_bytes_max);
    for (;; size = std::max(size / 2, layout_.large_from)) {  // a tight store gives smaller chunks
      auto room = find_room(size, Allocator::Kind::kSmall);
      if (!room.ok()) {
        fail(request, room.error_ptr());
        return Outcome::kDone;
      }
      if (*room) {
        lease.range = **room;
        break;
      }
      if (size == layout_.large_from) return Outcome::kNoRoom;
    }
    lease.chunk = chunks_.add(request.client, lease.range);
  }
  lease.slots = lease_slots(request.client, slots);
  effects_.push_back(LeaseGranted{request.client, request.token, std::move(lease)});
  return Outcome::kDone;
}

std::vector<std::uint32_t> StoreServer::lease_slots(ProcessId client, std::uint32_t count) {
  std::vector<std::uint32_t> slots;
  slots.reserve(count);
  while (slots.size() < count) {
    auto slot = slots_.lease(SlotKind::kSmall, client);
    if (!slot) break;
    set_word(*slot, {std::max(1u, word(*slot).generation), SlotState::kLeased});
    slots.push_back(*slot);
  }
  return slots;
}

StoreServer::Outcome StoreServer::grant_buffer(const Waiting& request) {
  auto placed = place(SlotKind::kLarge, request.client, request.size);
  if (!placed.ok()) {
    fail(request, placed.error_ptr());
    return Outcome::kDone;
  }
  if (!*placed) return Outcome::kNoRoom;
  effects_.push_back(
      BufferGranted{request.client, request.token, {(*placed)->id, {(*placed)->range.offset, request.size}}});
  return Outcome::kDone;
}

/// A slot with a range of its own, leased, its place in the index; nothing when there is no room now.
Result<std::optional<StoreServer::Placed>> StoreServer::place(SlotKind kind, ProcessId owner, std::uint64_t size) {
  if (slots_.available() == 0 && !evict_one_copy()) return std::optional<Placed>();
  auto room = find_room(size, Allocator::Kind::kLarge);
  if (!room.ok()) return room.error_ptr();
  if (!*room) return std::optional<Placed>();
  std::uint32_t slot = *slots_.lease(kind, owner, **room);
  entry(slot).offset.store((*room)->offset, std::memory_order_relaxed);
  entry(slot).size.store(size, std::memory_order_relaxed);
  SlotWord leased{std::max(1u, word(slot).generation), SlotState::kLeased};
  set_word(slot, leased);
  return std::optional<Placed>({id_of(slot, leased.generation), **room});
}

/// Evicts copies that nobody uses as long as that may help. An error means that the machine itself has no memory.
Result<std::optional<Range>> StoreServer::find_room(std::uint64_t size, Allocator::Kind kind) {
  auto room = allocator_.allocate(size, kind);
  while (!room && evict_one_copy()) room = allocator_.allocate(size, kind);
  if (!room) return room;
  if (Status status = arena_->reserve(*room); !status.ok()) {
    allocator_.free(*room);
    return status.error_ptr();
  }
  return room;
}

// ---- the queues

void StoreServer::serve_queues() {
  serve(waiting_leases_);
  serve(waiting_large_);
}

void StoreServer::serve(Waiters& queue) {
  while (!queue.empty()) {
    Waiting request = std::move(queue.front());
    queue.pop_front();
    if (try_grant(request) == Outcome::kDone) continue;
    queue.push_front(std::move(request));
    return;
  }
}

void StoreServer::fail(const Waiting& request, ErrorPtr error) {
  if (request.kind == Waiting::Kind::kCopy) effects_.push_back(CopyFailed{request.remote, std::move(error)});
  else effects_.push_back(RequestFailed{request.client, request.token, std::move(error)});
}

void StoreServer::drop_requests(ProcessId client) {
  auto is_his = [&](const Waiting& w) { return w.kind != Waiting::Kind::kCopy && w.client == client; };
  std::erase_if(waiting_leases_, is_his);
  std::erase_if(waiting_large_, is_his);
}

void StoreServer::cancel_request(ProcessId client, Token token) {
  auto is_it = [&](const Waiting& w) {
    return w.kind != Waiting::Kind::kCopy && w.client == client && w.token == token;
  };
  std::erase_if(waiting_leases_, is_it);
  std::erase_if(waiting_large_, is_it);
  serve_queues();
}

void StoreServer::expire(TimePoint now) {
  for (Waiters* queue : {&waiting_leases_, &waiting_large_}) {
    std::erase_if(*queue, [&](const Waiting& w) {
      if (w.deadline > now) return false;
      fail(w, make_error<ObjectStoreFullError>(
                  "no room in the object store of node " + std::to_string(layout_.node) + " in time for " +
                  std::to_string(w.kind == Waiting::Kind::kLease ? w.lease.bytes : w.size) +
                  " bytes: " + std::to_string(allocator_.used()) + " of " + std::to_string(layout_.capacity) +
                  " bytes are in use (drop references, or raise object_store_memory)"));
      return true;
    });
  }
  serve_queues();  // the head of a queue may be gone
}

std::optional<TimePoint> StoreServer::next_deadline() const {
  TimePoint earliest = kNever;
  for (const Waiters* queue : {&waiting_leases_, &waiting_large_}) {
    for (const Waiting& w : *queue) earliest = std::min(earliest, w.deadline);
  }
  return earliest == kNever ? std::nullopt : std::optional(earliest);
}

std::vector<StoreEffect> StoreServer::take_effects() { return std::exchange(effects_, {}); }

}  // namespace troupe::store
