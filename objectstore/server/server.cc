#include "objectstore/server/server.h"

#include <algorithm>
#include <utility>

namespace troupe::store {

std::string to_string(BufferId id) {
  return std::to_string(id.node) + ":" + std::to_string(id.slot) + ":" + std::to_string(id.generation);
}

// ------------------------------------------------------------------------------------------------- opening, clients

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
  auto arena = Arena::create(
      {.capacity = options_.capacity, .populate = options_.populate, .make_pages = options_.make_pages});
  if (!arena.ok()) return arena.error_ptr();
  arena_ = std::move(*arena);
  return index_.open(options_.slots);
}

Result<StoreHandles> StoreServer::add_client(ProcessId client) {
  if (clients_.contains(client))
    return InvalidArgumentError("store client " + std::to_string(client.serial) + " is already known");
  StoreHandles handles;
  handles.layout = layout_;
  const std::pair<UniqueFd*, const UniqueFd*> shared[] = {{&handles.arena_write, &arena_->fd()},
                                                          {&handles.arena_read, &arena_->read_only_fd()},
                                                          {&handles.index, &index_.fd()}};
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
  drop_requests([&](const MemoryRequest& request) { return request.belongs_to(client); });
  serve_queues();
}

bool StoreServer::may_ask(ProcessId client) const {
  auto found = clients_.find(client);
  return found != clients_.end() && !found->second.closing;
}

// --------------------------------------------------------------------------------------------------------- requests

void StoreServer::lease(ProcessId client, Token token, const LeaseRequest& request, TimePoint deadline) {
  if (!may_ask(client)) return;
  ask(waiting_leases_, {.kind = MemoryRequest::Kind::kLease,
                        .client = client,
                        .token = token,
                        .lease = request,
                        .deadline = deadline});
}

void StoreServer::allocate(ProcessId client, Token token, std::uint64_t size, TimePoint deadline) {
  if (!may_ask(client)) return;
  MemoryRequest request{.kind = MemoryRequest::Kind::kAllocate,
                        .client = client,
                        .token = token,
                        .size = size,
                        .deadline = deadline};
  if (size > layout_.capacity) {
    return fail(request, make_error<ObjectStoreFullError>(
                             "a buffer of " + std::to_string(size) + " bytes can never fit: the object store of node " +
                             std::to_string(layout_.node) + " holds " + std::to_string(layout_.capacity) +
                             " bytes (raise object_store_memory)"));
  }
  ask(waiting_large_, std::move(request));
}

void StoreServer::ask(RequestQueue& queue, MemoryRequest request) {
  if (queue.empty() && try_grant(request) == Outcome::kDone) return;
  if (request.lease.ahead) return fail(request, make_error<ObjectStoreFullError>("no room for a lease ahead of need"));
  if (waiting_leases_.empty() && waiting_large_.empty()) {  // it has just become tight: what lies idle is wanted back
    for (const auto& [client, state] : clients_) {
      if (!state.closing) effects_.push_back(TrimAsked{client});
    }
  }
  queue.push(std::move(request));
}

StoreServer::Outcome StoreServer::try_grant(const MemoryRequest& request) {
  switch (request.kind) {
    case MemoryRequest::Kind::kLease: return grant_lease(request);
    case MemoryRequest::Kind::kAllocate: return grant_buffer(request);
    case MemoryRequest::Kind::kCopy: return grant_copy(request);
  }
  return Outcome::kDone;
}

StoreServer::Outcome StoreServer::grant_lease(const MemoryRequest& request) {
  const std::uint32_t slots = std::min(request.lease.slots, options_.lease_slots_max);
  if (slots > 0 && slots_.available() == 0) return Outcome::kNoRoom;
  Lease lease;
  if (request.lease.bytes > 0) {
    std::uint64_t size = std::clamp(request.lease.bytes, layout_.large_from, options_.chunk_bytes_max);
    for (;; size = std::max(size / 2, layout_.large_from)) {  // a tight store gives smaller chunks
      if (auto room = find_room(size, Allocator::Kind::kSmall)) {
        lease.range = *room;
        break;
      }
      if (size == layout_.large_from) return Outcome::kNoRoom;
    }
    lease.chunk = chunks_.add(request.client, lease.range);
  }
  lease.slots = lease_slots(request.client, slots);
  lease.tight = !waiting_large_.empty() || !waiting_leases_.empty();
  const Range range = lease.range;
  answer_when_ready(request, range, LeaseGranted{request.client, request.token, std::move(lease)});
  return Outcome::kDone;
}

std::vector<std::uint32_t> StoreServer::lease_slots(ProcessId client, std::uint32_t count) {
  std::vector<std::uint32_t> slots;
  slots.reserve(count);
  while (slots.size() < count) {
    auto slot = slots_.lease(SlotKind::kSmall, client);
    if (!slot) break;
    index_.lease(*slot);
    slots.push_back(*slot);
  }
  return slots;
}

StoreServer::Outcome StoreServer::grant_buffer(const MemoryRequest& request) {
  auto placed = place(SlotKind::kLarge, request.client, request.size);
  if (!placed) return Outcome::kNoRoom;
  answer_when_ready(request, placed->range,
                    BufferGranted{request.client, request.token, {placed->id, {placed->range.offset, request.size}}});
  return Outcome::kDone;
}

/// A slot with a range of its own, leased, its place in the index; nothing when there is no room now.
std::optional<StoreServer::Placed> StoreServer::place(SlotKind kind, ProcessId owner, std::uint64_t size) {
  if (slots_.available() == 0 && !evict_one_copy()) return std::nullopt;
  auto room = find_room(size, Allocator::Kind::kLarge);
  if (!room) return std::nullopt;
  const std::uint32_t slot = *slots_.lease(kind, owner, *room);
  index_.set_bytes(slot, {room->offset, size});
  return Placed{id_of(slot, index_.lease(slot)), *room};
}

/// Evicts copies that nobody uses as long as that may help.
std::optional<Range> StoreServer::find_room(std::uint64_t size, Allocator::Kind kind) {
  auto room = allocator_.allocate(size, kind);
  while (!room && evict_one_copy()) room = allocator_.allocate(size, kind);
  return room;
}

/// AR-1: nobody is told of a range before all its pages exist.
void StoreServer::answer_when_ready(const MemoryRequest& request, Range range, StoreEffect answer) {
  if (arena_->is_reserved(range)) {
    effects_.push_back(std::move(answer));
    return;
  }
  assigned_.emplace(++last_ticket_, Assigned{request, std::move(answer)});
  effects_.push_back(PagesWanted{last_ticket_, range});
}

/// An error means that the machine itself has no memory.
void StoreServer::pages_made(PageTicket ticket, const Status& status) {
  auto node = assigned_.extract(ticket);
  if (!node) return;
  if (status.ok()) {
    effects_.push_back(std::move(node.mapped().answer));
    return;
  }
  take_back(node.mapped().answer);
  fail(node.mapped().request, status.error_ptr());
  serve_queues();
}

/// What was assigned and never told to anybody.
void StoreServer::take_back(const StoreEffect& answer) {
  if (const auto* lease = std::get_if<LeaseGranted>(&answer)) {
    for (std::uint32_t slot : lease->lease.slots) free_unused_slot(slot, index_.word(slot).generation);
    if (ChunkTable::Chunk* chunk = chunks_.find(lease->lease.chunk)) {
      if (auto empty = chunks_.returned(*chunk, 0)) allocator_.free(*empty);
    }
  } else if (const auto* buffer = std::get_if<BufferGranted>(&answer)) {
    release_slot(buffer->grant.id.slot, buffer->grant.id.generation);
  } else if (const auto* copy = std::get_if<CopyGranted>(&answer)) {
    release_slot(copy->local.slot, copy->local.generation);
  }
}

void StoreServer::serve_queues() {
  auto serve = [this](const MemoryRequest& request) { return try_grant(request) == Outcome::kDone; };
  waiting_leases_.serve(serve);
  waiting_large_.serve(serve);
}

void StoreServer::fail(const MemoryRequest& request, ErrorPtr error) {
  if (request.kind == MemoryRequest::Kind::kCopy) effects_.push_back(CopyFailed{request.remote, std::move(error)});
  else effects_.push_back(RequestFailed{request.client, request.token, std::move(error)});
}

/// Queued ones are forgotten; what was assigned to one goes back. True: there was one.
bool StoreServer::drop_requests(const std::function<bool(const MemoryRequest&)>& which) {
  bool dropped = false;
  for (RequestQueue* queue : {&waiting_leases_, &waiting_large_}) {
    queue->drop_if([&](const MemoryRequest& request) { return which(request) && (dropped = true); });
  }
  for (auto at = assigned_.begin(); at != assigned_.end();) {
    if (!which(at->second.request)) {
      ++at;
      continue;
    }
    dropped = true;
    take_back(at->second.answer);
    effects_.push_back(PagesUnwanted{at->first});
    at = assigned_.erase(at);
  }
  return dropped;
}

bool StoreServer::cancel_request(ProcessId client, Token token) {
  const bool dropped = drop_requests([&](const MemoryRequest& request) { return request.is(client, token); });
  serve_queues();
  return dropped;
}

ErrorPtr StoreServer::too_late(const MemoryRequest& request) const {
  return make_error<ObjectStoreFullError>(
      "no room in the object store of node " + std::to_string(layout_.node) + " in time for " +
      std::to_string(request.bytes()) + " bytes: " + std::to_string(allocator_.used()) + " of " +
      std::to_string(layout_.capacity) + " bytes are in use (drop references, or raise object_store_memory)");
}

void StoreServer::expire(TimePoint now) {
  for (RequestQueue* queue : {&waiting_leases_, &waiting_large_}) {
    for (const MemoryRequest& late : queue->expired(now)) fail(late, too_late(late));
  }
  drop_requests([&](const MemoryRequest& request) {
    if (request.deadline > now) return false;
    fail(request, too_late(request));
    return true;
  });
  serve_queues();  // the head of a queue may be gone
}

std::optional<TimePoint> StoreServer::next_deadline() const {
  TimePoint earliest = std::min(waiting_leases_.next_deadline(), waiting_large_.next_deadline());
  for (const auto& [ticket, assigned] : assigned_) earliest = std::min(earliest, assigned.request.deadline);
  return earliest == kNever ? std::nullopt : std::optional(earliest);
}

std::vector<StoreEffect> StoreServer::take_effects() { return std::exchange(effects_, {}); }

// ----------------------------------------------------------------------------------------------------- freeing a slot

/// Frees a sealed buffer if nobody has it. Copies are kept until room is needed, unless their origin is gone.
bool StoreServer::try_free(std::uint32_t slot) {
  const SlotWord now = index_.word(slot);
  const SlotRecord& record = slots_[slot];
  if (now.state != SlotState::kSealed) return false;
  if (record.kind == SlotKind::kCopy) {
    const CopyTable::Copy* copy = copies_.at_slot(slot);
    if (copy && !copy->origin_gone) {
      copies_.touch(slot);
      return false;
    }
  }
  // SS-1: until its id was shared, a small buffer is its maker's to free, who may be doing so at this moment.
  const bool makers = record.kind == SlotKind::kSmall && !(record.owner == ProcessId{});
  if (makers && !index_.shared(slot, now.generation)) return false;
  return unlink_if_unpinned(slot, now);
}

/// SL-3, the freeing side: doomed first, then every pin.
bool StoreServer::unlink_if_unpinned(std::uint32_t slot, SlotWord sealed) {
  if (slots_[slot].holds > 0 || !index_.doom(slot, sealed)) return false;
  if (pins_.pinned(slot)) {
    index_.set_word(slot, sealed);
    return false;
  }
  release_slot(slot, sealed.generation);
  return true;
}

/// Gives bytes and slot back. Nobody can reach them any more.
void StoreServer::release_slot(std::uint32_t slot, std::uint32_t generation) {
  const SlotRecord& record = slots_[slot];
  if (record.kind == SlotKind::kSmall) {
    if (ChunkTable::Chunk* chunk = chunks_.containing(index_.bytes_of(slot), record.owner)) {  // SS-5
      if (auto empty = chunks_.freed_one(*chunk)) allocator_.free(*empty);
    }
  } else {
    allocator_.free(record.range);
  }
  if (record.kind == SlotKind::kCopy) copies_.erase_slot(slot);
  if (record.exported) effects_.push_back(ExportedFreed{id_of(slot, generation)});
  free_unused_slot(slot, generation);
}

void StoreServer::free_unused_slot(std::uint32_t slot, std::uint32_t generation) {
  index_.free(slot, generation);
  slots_.free_slot(slot);
}

// --------------------------------------------------------------------------------------------------- what clients say

void StoreServer::maybe_free(ProcessId client, std::span<const BufferId> ids) {
  for (BufferId id : ids) {
    if (!valid(id) || index_.word(id.slot).generation != id.generation) continue;
    const SlotRecord& record = slots_[id.slot];
    const bool abandoned = record.kind == SlotKind::kLarge && record.owner == client &&
                           index_.word(id.slot).state == SlotState::kLeased;
    if (abandoned) release_slot(id.slot, id.generation);
    else if (record.kind != SlotKind::kFree) try_free(id.slot);
  }
  serve_queues();
}

void StoreServer::give_back(ProcessId client, std::span<const ReturnedChunk> chunks,
                            std::span<const std::uint32_t> unused_slots) {
  for (const ReturnedChunk& r : chunks) {
    ChunkTable::Chunk* chunk = chunks_.find(r.chunk);
    if (!chunk || chunk->owner != client || chunk->returned) continue;
    if (auto empty = chunks_.returned(*chunk, r.shared)) allocator_.free(*empty);
  }
  for (std::uint32_t slot : unused_slots) {
    if (slot >= slots_.frontier() || slots_[slot].kind != SlotKind::kSmall || slots_[slot].owner != client) continue;
    const SlotWord now = index_.word(slot);
    if (now.state == SlotState::kLeased) free_unused_slot(slot, now.generation);
  }
  serve_queues();
}

// ------------------------------------------------------------------------------------------------------------ holders

bool StoreServer::hold(ProcessId holder, BufferId id) {
  if (!contains(id)) return false;
  SlotRecord& record = slots_[id.slot];
  ++record.holds;
  if (holder.node != layout_.node) record.exported = true;
  holds_.add(holder, id.slot);
  return true;
}

void StoreServer::release(ProcessId holder, BufferId id) {
  if (!valid(id) || index_.word(id.slot).generation != id.generation || !holds_.remove(holder, id.slot)) return;
  drop_hold(id.slot, 1);
  serve_queues();
}

void StoreServer::drop_hold(std::uint32_t slot, std::uint32_t count) {
  slots_[slot].holds -= count;
  if (slots_[slot].holds == 0) try_free(slot);
}

void StoreServer::holder_gone(ProcessId holder) {
  for (auto [slot, count] : holds_.take(holder)) drop_hold(slot, count);
  serve_queues();
}

void StoreServer::holders_of_node_gone(std::uint32_t node) {
  for (ProcessId holder : holds_.holders_of_node(node)) holder_gone(holder);
}

std::optional<std::span<const std::byte>> StoreServer::bytes(BufferId id) const {
  if (!valid(id) || index_.word(id.slot) != SlotWord{id.generation, SlotState::kSealed}) return std::nullopt;
  const Range range = index_.bytes_of(id.slot);
  if (range.offset > layout_.capacity || range.size > layout_.capacity - range.offset) return std::nullopt;  // SS-5
  return memory(range);
}

// ------------------------------------------------------------------------------------------------------------- deaths

void StoreServer::client_died(ProcessId client) {
  if (clients_.erase(client) == 0) return;
  drop_requests([&](const MemoryRequest& request) { return request.belongs_to(client); });
  const std::vector<std::uint32_t> pinned = pins_.drop(client);
  holder_gone(client);
  reclaim_slots_of(client);
  for (std::uint32_t slot : pinned) {
    if (slot < slots_.frontier() && slots_[slot].kind != SlotKind::kFree) try_free(slot);
  }
  serve_queues();
}

/// SS-3. Its chunks are counted anew: what is still pinned by others keeps them, ownerless.
void StoreServer::reclaim_slots_of(ProcessId client) {
  std::unordered_map<std::uint32_t, std::uint64_t> live;  // by chunk
  for (std::uint32_t slot = 0; slot < slots_.frontier(); ++slot) {
    if (slots_[slot].kind == SlotKind::kFree || slots_[slot].owner != client) continue;
    if (std::uint64_t chunk = reclaim_slot(slot)) ++live[std::uint32_t(chunk)];
  }
  for (std::uint32_t id : chunks_.owned_by(client)) {
    if (auto empty = chunks_.orphaned(*chunks_.find(id), live[id])) allocator_.free(*empty);
  }
}

/// Frees the slot or makes it ownerless; then the chunk that it stays in, or 0.
std::uint64_t StoreServer::reclaim_slot(std::uint32_t slot) {
  const SlotWord now = index_.word(slot);
  const bool small = slots_[slot].kind == SlotKind::kSmall;
  if (now.state == SlotState::kLeased) {
    if (small) free_unused_slot(slot, now.generation);  // its bytes were never published: the chunk does not count it
    else release_slot(slot, now.generation);
    return 0;
  }
  // Doomed here means that the client died while it recycled the slot itself.
  const SlotWord sealed{now.generation, SlotState::kSealed};
  index_.set_word(slot, sealed);
  if (unlink_if_unpinned(slot, sealed)) return 0;
  const ProcessId owner = std::exchange(slots_[slot].owner, ProcessId{});
  if (!small) return 0;
  ChunkTable::Chunk* chunk = chunks_.containing(index_.bytes_of(slot), owner);
  return chunk ? chunk->id : 0;
}

// ------------------------------------------------------------------------------------------------------------- copies

Result<StoreServer::CopyTicket> StoreServer::begin_copy(BufferId remote, std::uint64_t size, TimePoint deadline) {
  if (remote.node == layout_.node || remote.is_nil())
    return InvalidArgumentError("not a buffer of another node: " + to_string(remote));
  auto copies_it = [&](const MemoryRequest& request) { return request.copies(remote); };
  const bool waits =
      waiting_large_.any(copies_it) ||
      std::any_of(assigned_.begin(), assigned_.end(), [&](const auto& a) { return copies_it(a.second.request); });
  if (waits) return CopyTicket{CopyTicket::State::kWaiting, {}, {}};
  if (const CopyTable::Copy* copy = copies_.find(remote)) {
    const bool present = copy->state == CopyTable::State::kPresent;
    if (present) copies_.touch(copy->local.slot);
    return CopyTicket{present ? CopyTicket::State::kPresent : CopyTicket::State::kShared, copy->local, {}};
  }
  if (size > layout_.capacity) {
    return ObjectStoreFullError("a copy of " + std::to_string(size) + " bytes can never fit into the " +
                                std::to_string(layout_.capacity) + " bytes of node " + std::to_string(layout_.node) +
                                "'s object store");
  }
  const std::size_t before = effects_.size();
  ask(waiting_large_, {.kind = MemoryRequest::Kind::kCopy, .size = size, .remote = remote, .deadline = deadline});
  // Answered at once: the answer is the result, not an effect. The effects of evictions stay.
  if (effects_.size() > before) {
    if (const auto* granted = std::get_if<CopyGranted>(&effects_.back()); granted && granted->remote == remote) {
      CopyTicket ticket{CopyTicket::State::kStarted, granted->local, granted->bytes};
      effects_.pop_back();
      return ticket;
    }
  }
  return CopyTicket{CopyTicket::State::kWaiting, {}, {}};
}

StoreServer::Outcome StoreServer::grant_copy(const MemoryRequest& request) {
  auto placed = place(SlotKind::kCopy, {}, request.size);
  if (!placed) return Outcome::kNoRoom;
  copies_.begin(request.remote, placed->id);
  if (gone_nodes_.contains(request.remote.node)) copies_.mark_origin_gone(request.remote);  // SS-6
  answer_when_ready(request, placed->range,
                    CopyGranted{request.remote, placed->id, memory({placed->range.offset, request.size})});
  return Outcome::kDone;
}

Result<BufferId> StoreServer::finish_copy(BufferId remote) {
  const CopyTable::Copy* copy = copies_.find(remote);
  if (!copy || copy->state != CopyTable::State::kFilling)
    return NotFoundError("no copy of " + to_string(remote) + " is being made");
  const BufferId local = copy->local;
  copies_.finish(remote);
  index_.set_word(local.slot, {local.generation, SlotState::kSealed});
  return local;
}

void StoreServer::abort_copy(BufferId remote) {
  drop_requests([&](const MemoryRequest& request) { return request.copies(remote); });
  const CopyTable::Copy* copy = copies_.find(remote);
  if (copy && copy->state == CopyTable::State::kFilling) {
    const BufferId local = copy->local;
    release_slot(local.slot, local.generation);
  }
  serve_queues();
}

std::optional<BufferId> StoreServer::find_copy(BufferId remote) {
  const CopyTable::Copy* copy = copies_.find(remote);
  if (!copy || copy->state != CopyTable::State::kPresent) return std::nullopt;
  copies_.touch(copy->local.slot);
  return copy->local;
}

void StoreServer::origin_gone(BufferId remote) {
  const CopyTable::Copy* copy = copies_.find(remote);
  if (!copy) return;
  const bool present = copy->state == CopyTable::State::kPresent;
  const std::uint32_t slot = copy->local.slot;
  copies_.mark_origin_gone(remote);
  if (!present) return;  // the filler's to finish or abort
  try_free(slot);
  serve_queues();
}

void StoreServer::origin_node_gone(std::uint32_t node) {
  gone_nodes_.insert(node);
  for (BufferId remote : copies_.of_node(node)) origin_gone(remote);
}

bool StoreServer::evict_one_copy() {
  std::vector<std::uint32_t> oldest_first;
  copies_.each_least_recent([&](const CopyTable::Copy& copy) { oldest_first.push_back(copy.local.slot); });
  for (std::uint32_t slot : oldest_first) {
    if (unlink_if_unpinned(slot, index_.word(slot))) return true;
  }
  return false;
}

// -------------------------------------------------------------------------------------------------------------- state

StoreUsage StoreServer::usage() const {
  StoreUsage usage{.capacity = layout_.capacity,
                   .used = 0,
                   .spilled = 0,
                   .objects = 0,
                   .leased = chunks_.bytes(),
                   .reserved = arena_->reserved(),
                   .waiting = waiting_leases_.size() + waiting_large_.size() + assigned_.size()};
  for (std::uint32_t slot = 0; slot < slots_.frontier(); ++slot) {
    const SlotRecord& record = slots_[slot];
    if (record.kind == SlotKind::kFree) continue;
    const bool sealed = index_.word(slot).state == SlotState::kSealed;
    if (sealed) ++usage.objects;
    if (record.kind != SlotKind::kSmall) usage.used += record.range.size;
    else if (sealed) usage.used += index_.bytes_of(slot).size;
  }
  return usage;
}

std::optional<Range> StoreServer::populate_ahead(std::uint64_t ahead) const {
  Range fresh = allocator_.fresh();
  fresh.size = std::min(fresh.size, ahead);
  return fresh.size == 0 ? std::nullopt : arena_->first_unpopulated(fresh);
}

std::string StoreServer::audit() const {
  std::vector<Range> ranges;
  chunks_.each([&](const ChunkTable::Chunk& chunk) { ranges.push_back(chunk.range); });
  std::uint64_t holds = 0;
  for (std::uint32_t slot = 0; slot < slots_.frontier(); ++slot) {
    const SlotRecord& record = slots_[slot];
    const SlotState state = index_.word(slot).state;
    if ((record.kind == SlotKind::kFree) != (state == SlotState::kFree))
      return "slot " + std::to_string(slot) + ": table and index disagree";
    if (state == SlotState::kDoomed && !clients_.contains(record.owner))
      return "slot " + std::to_string(slot) + " stayed doomed";
    if (record.kind == SlotKind::kLarge || record.kind == SlotKind::kCopy) ranges.push_back(record.range);
    if (!(record.owner == ProcessId{}) && !clients_.contains(record.owner))
      return "slot " + std::to_string(slot) + " belongs to a dead client";
    holds += record.holds;
  }
  if (holds != holds_.total()) {
    return "holds: " + std::to_string(holds) + " in the slots, " + std::to_string(holds_.total()) + " in the table";
  }
  std::sort(ranges.begin(), ranges.end(), [](Range a, Range b) { return a.offset < b.offset; });
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    total += ranges[i].size;
    if (i > 0 && ranges[i - 1].end() > ranges[i].offset) return "ranges overlap at " + std::to_string(ranges[i].offset);
  }
  if (total != allocator_.used())
    return "allocator: " + std::to_string(allocator_.used()) + " used, " + std::to_string(total) + " accounted for";
  return {};
}

}  // namespace troupe::store
