#include "core/node/store/store_service.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/node/base/exports.h"
#include "core/node/store/buffer_names.h"

namespace troupe::node {

Result<std::unique_ptr<StoreService>> StoreService::create(Loop& loop, Messenger& mail, Options options) {
  store::StoreServerOptions server_options;
  server_options.node = options.node;
  server_options.capacity = options.capacity;
  server_options.make_pages = std::move(options.make_pages);
  Result<std::unique_ptr<store::StoreServer>> server = store::StoreServer::create(std::move(server_options));
  if (!server.ok()) return server.error_ptr();
  std::unique_ptr<StoreService> service(new StoreService(loop, mail, std::move(*server)));
  service->start_pages();
  return service;
}

StoreService::StoreService(Loop& loop, Messenger& mail, std::unique_ptr<store::StoreServer> server)
    : loop_(loop), mail_(mail), server_(std::move(server)) {}

StoreService::~StoreService() = default;

void StoreService::start_pages() {
  const std::weak_ptr<const bool> alive = alive_;  // what was posted may run after this object's end
  PageThread::Hooks hooks;
  hooks.made = [this, alive](store::PageTicket ticket, const Status& status) {
    loop_.post([this, alive, ticket, status] {
      if (alive.expired()) return;
      server_->pages_made(ticket, status);
      apply();
    });
  };
  hooks.ahead_done = [this, alive](const Status& status) {
    if (!status.ok()) write_log(LogLevel::kWarn, "touching store memory ahead: {}", status.error().message());
    loop_.post([this, alive, ok = status.ok()] {
      if (alive.expired()) return;
      populating_ = !ok;  // after a failure: not again, memory is short
      if (ok) plan_populate();
    });
  };
  pages_ = std::make_unique<PageThread>(server_->arena(), std::move(hooks));
}

// ------------------------------------------------------------------------------------------------------------ requests

void StoreService::lease(const net::FrameHeader& request, const wire::StoreLeaseRequest& wanted) {
  if (!server_->may_ask(request.source)) return;  // its last messages may come behind the news of its end
  const store::Token token = next_token_++;
  requests_[token] = request;
  server_->lease(request.source, token, {wanted.bytes, wanted.slots, wanted.ahead}, loop_.now() + kStoreWait);
  apply();
}

void StoreService::allocate(const net::FrameHeader& request, const wire::StoreAllocateRequest& wanted) {
  if (!server_->may_ask(request.source)) return;
  const store::Token token = next_token_++;
  requests_[token] = request;
  server_->allocate(request.source, token, wanted.size, loop_.now() + kStoreWait);
  apply();
}

void StoreService::withdraw(ProcessId client, const wire::StoreWithdraw& withdrawn) {
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const auto& one) {
    return one.second.source == client && one.second.token == withdrawn.token;
  });
  if (found == requests_.end()) return;  // answered: the grant is the client's to give back
  const auto [token, request] = *found;
  if (server_->cancel_request(client, token)) {
    requests_.erase(token);
    mail_.fail(request, make_record(ErrorCode::kCancelled, "the request for memory was withdrawn"));
  }
  apply();
}

void StoreService::free(ProcessId client, const wire::StoreFree& freed) {
  std::vector<store::BufferId> ids;
  for (const auto& [slot, generation] : freed.slots) ids.push_back({server_->layout().node, slot, generation});
  if (!ids.empty()) server_->maybe_free(client, ids);
  std::vector<store::ReturnedChunk> chunks;
  for (std::size_t i = 0; i < freed.chunks.size(); ++i)
    chunks.push_back(
        {static_cast<std::uint32_t>(freed.chunks[i]), i < freed.chunk_shared.size() ? freed.chunk_shared[i] : 0});
  if (!chunks.empty() || !freed.unused_slots.empty()) server_->give_back(client, chunks, freed.unused_slots);
  apply();
}

void StoreService::hold(const net::FrameHeader& request, const wire::StoreHoldRequest& wanted) {
  if (wanted.holder.is_daemon()) return offer(request, wanted);
  for (std::size_t i = 0; i < wanted.buffers.size(); ++i) {
    if (server_->hold(wanted.holder, id_of(wanted.buffers[i]))) continue;
    for (std::size_t k = 0; k < i; ++k) server_->release(wanted.holder, id_of(wanted.buffers[k]));
    mail_.fail(request, make_record(ErrorCode::kObjectLost,
                                    "buffer " + store::to_string(id_of(wanted.buffers[i])) + " is no longer there"));
    return apply();
  }
  mail_.respond(request, wire::Empty{});
  apply();
}

void StoreService::offer(const net::FrameHeader& request, const wire::StoreHoldRequest& wanted) {
  for (const wire::BufferDesc& buffer : wanted.buffers) {
    const store::BufferId id = id_of(buffer);
    const bool own = id.node == server_->layout().node;
    const std::optional<store::BufferId> local = own ? id : server_->find_copy(id);  // SV-5
    const auto bytes = local ? server_->bytes(*local) : std::nullopt;
    if (!exports_ || !bytes || !server_->hold(mail_.self(), *local)) {
      const ErrorCode code = own ? ErrorCode::kObjectLost : ErrorCode::kNotFound;
      return mail_.fail(request, make_record(code, "buffer " + store::to_string(id) + " is no longer there"));
    }
    if (!exports_->expose(id, *local, *bytes, wanted.holder.node))
      server_->release(mail_.self(), *local);  // it is exposed, and held, already
  }
  mail_.respond(request, wire::Empty{});
}

void StoreService::unexport(store::BufferId local) { release_for(mail_.self(), local); }

void StoreService::unhold(const wire::StoreHoldRequest& wanted) {
  if (wanted.holder.is_daemon()) {
    for (const wire::BufferDesc& buffer : wanted.buffers)
      if (exports_) exports_->withdraw(id_of(buffer), wanted.holder.node);
    return;
  }
  for (const wire::BufferDesc& buffer : wanted.buffers)
    if (!end_hand_out(wanted.holder, id_of(buffer))) server_->release(wanted.holder, id_of(buffer));
  apply();
}

wire::StoreUsageReply StoreService::usage() const {
  const store::StoreUsage usage = server_->usage();
  return {usage.capacity, usage.used, usage.spilled, usage.objects};
}

void StoreService::copies_void(const wire::StoreHoldRequest& freed) {
  for (const wire::BufferDesc& buffer : freed.buffers) server_->origin_gone(id_of(buffer));
  apply();
}

// -------------------------------------------------------------------------------------------------------------- copies

void StoreService::fetch(const net::FrameHeader& request, const wire::StoreFetchRequest& wanted) {
  const store::BufferId remote = id_of(wanted.buffer);
  if (remote.node == server_->layout().node) {
    if (server_->contains(remote)) return hand_out(request, remote, wanted.buffer.size);
    return mail_.fail(
        request, make_record(ErrorCode::kObjectLost, "buffer " + store::to_string(remote) + " is no longer there"));
  }
  if (auto it = copying_.find(remote); it != copying_.end()) {
    if (it->second.waiting.empty()) it->second.readers_until = loop_.now() + kStoreWait;  // SV-6
    it->second.waiting.push_back(request);                                                // SV-2
    return;
  }
  Result<store::StoreServer::CopyTicket> ticket =
      server_->begin_copy(remote, wanted.buffer.size, loop_.now() + kStoreWait);
  if (!ticket.ok()) return mail_.fail(request, ticket.error().record());
  using State = store::StoreServer::CopyTicket::State;
  if (ticket->state == State::kPresent) {
    hand_out(request, ticket->local, wanted.buffer.size);
    return apply();
  }
  copying_[remote] = {.waiting = {request}, .size = wanted.buffer.size};
  if (ticket->state == State::kStarted) start_fetch(remote, ticket->bytes);
  else say_why_it_waits(remote);
  apply();
}

/// Those who wait for memory of their own say so themselves (StoreRequests); a reader does not know of the copy's.
void StoreService::say_why_it_waits(store::BufferId remote) {
  loop_.after(kSaysWhyAfter, [this, remote, alive = std::weak_ptr<const bool>(alive_)] {
    if (alive.expired()) return;
    const auto found = copying_.find(remote);
    if (found == copying_.end() || found->second.has_room) return;
    write_log(LogLevel::kWarn, "a copy of buffer {} waits for {} bytes of the object store, which is full",
              store::to_string(remote), found->second.size);
  });
}

void StoreService::start_fetch(store::BufferId remote, std::span<std::byte> bytes) {
  if (const auto found = copying_.find(remote); found != copying_.end()) found->second.has_room = true;
  if (!fetch_) return fetched(remote, ObjectLostError("no way to fetch from node " + std::to_string(remote.node)));
  fetch_(remote, bytes, [this, remote](Status status) { fetched(remote, status); });
}

void StoreService::fetched(store::BufferId remote, const Status& status) {
  if (!status.ok()) {
    server_->abort_copy(remote);
    fail_copy(remote, status.error());
    return apply();
  }
  Result<store::BufferId> local = server_->finish_copy(remote);
  if (!local.ok()) {
    fail_copy(remote, local.error());
    return apply();
  }
  server_->hold(mail_.self(), *local);
  if (auto node = copying_.extract(remote); node)
    finish_waiting(node.mapped(), *local);
  server_->release(mail_.self(), *local);  // with nobody waiting, one whose origin is gone goes now
  apply();
}

void StoreService::fail_copy(store::BufferId remote, const Error& error) {
  auto node = copying_.extract(remote);
  if (!node) return;
  for (const net::FrameHeader& request : node.mapped().waiting) mail_.fail(request, error.record());
  for (const Brought& done : node.mapped().brought) done(Error::make(error.record()));
}

/// SV-6: the keeper has waited long enough, those who read have not. Then room is asked for again, once, as if they had
/// been the first.
void StoreService::no_room(store::BufferId remote, const Error& error) {
  const auto found = copying_.find(remote);
  if (found == copying_.end() || !found->second.room_for_keeper || found->second.waiting.empty())
    return fail_copy(remote, error);
  Copying& copying = found->second;
  copying.room_for_keeper = false;
  const std::vector<Brought> given_up = std::exchange(copying.brought, {});
  Result<store::StoreServer::CopyTicket> ticket = server_->begin_copy(remote, copying.size, copying.readers_until);
  if (!ticket.ok()) fail_copy(remote, ticket.error());
  else if (ticket->state == store::StoreServer::CopyTicket::State::kStarted) start_fetch(remote, ticket->bytes);
  else say_why_it_waits(remote);
  for (const Brought& done : given_up) done(Error::make(error.record()));
}

void StoreService::finish_waiting(const Copying& copying, store::BufferId local) {
  for (const net::FrameHeader& request : copying.waiting) hand_out(request, local, copying.size);
  for (const Brought& done : copying.brought) done(local);
}

void StoreService::bring(const wire::BufferDesc& buffer, Brought done) {
  const store::BufferId remote = id_of(buffer);
  // SV-2
  if (auto it = copying_.find(remote); it != copying_.end()) return void(it->second.brought.push_back(std::move(done)));
  Result<store::StoreServer::CopyTicket> ticket = server_->begin_copy(remote, buffer.size, loop_.now() + kKeepWait);
  if (!ticket.ok()) return done(ticket.error_ptr());
  using State = store::StoreServer::CopyTicket::State;
  if (ticket->state == State::kPresent) {
    done(ticket->local);
    return apply();
  }
  copying_[remote] = {.size = buffer.size, .brought = {std::move(done)}, .room_for_keeper = true};
  if (ticket->state == State::kStarted) start_fetch(remote, ticket->bytes);
  apply();
}

void StoreService::release_for(ProcessId holder, store::BufferId id) {
  server_->release(holder, id);
  apply();
}

/// One of this client's copies of that buffer is pinned by it, or never will be. False: none was handed to it.
bool StoreService::end_hand_out(ProcessId client, store::BufferId local) {
  const auto [first, last] = handed_out_.equal_range(local);
  const auto it = std::find_if(first, last, [&](const auto& one) { return one.second.client == client; });
  if (it == last) return false;
  loop_.cancel(it->second.expiry);
  handed_out_.erase(it);
  server_->release(client, local);
  apply();
  return true;
}

void StoreService::hand_out(const net::FrameHeader& request, store::BufferId local, std::uint64_t size) {
  const ProcessId client = request.source;
  if (server_->hold(client, local)) {  // SV-3
    const Loop::TimerId timer = loop_.after(kCopyHold, [this, client, local] { end_hand_out(client, local); });
    handed_out_.emplace(local, HandOut{client, timer});
  }
  mail_.respond(request, wire::StoreFetchReply{desc_of(local, size)});
}

// ------------------------------------------------------------------------------------------------------------- effects

void StoreService::apply() {
  for (std::vector<store::StoreEffect> effects = server_->take_effects(); !effects.empty();
       effects = server_->take_effects())
    for (const store::StoreEffect& effect : effects) std::visit([this](const auto& e) { perform(e); }, effect);
  if (!freed_exports_.empty()) {
    const wire::StoreHoldRequest freed{mail_.self(), std::exchange(freed_exports_, {})};
    if (neighbours_)
      for (std::uint32_t node : neighbours_()) mail_.notice(daemon_of(node), wire::Method::kCopiesVoid, freed);
  }
  plan_expiry();
  plan_populate();
}

std::optional<net::FrameHeader> StoreService::take_request(store::Token token) {
  auto node = requests_.extract(token);
  if (!node) return std::nullopt;
  return node.mapped();
}

void StoreService::perform(const store::LeaseGranted& effect) {
  const std::optional<net::FrameHeader> request = take_request(effect.token);
  if (!request) return;
  wire::StoreLeaseReply reply;
  reply.offset = effect.lease.range.offset;
  reply.size = effect.lease.range.size;
  reply.chunk = effect.lease.chunk;
  reply.tight = effect.lease.tight;
  for (std::uint32_t slot : effect.lease.slots) reply.slots.emplace_back(slot, 0);  // generations stand in the index
  mail_.respond(*request, reply);
}

void StoreService::perform(const store::BufferGranted& effect) {
  const std::optional<net::FrameHeader> request = take_request(effect.token);
  if (!request) return;
  const store::Grant& grant = effect.grant;
  mail_.respond(*request,
                wire::StoreAllocateReply{grant.id.slot, grant.id.generation, grant.range.offset, grant.range.size});
}

void StoreService::perform(const store::RequestFailed& effect) {
  if (const std::optional<net::FrameHeader> request = take_request(effect.token))
    mail_.fail(*request, effect.error->record());
}

void StoreService::perform(const store::CopyGranted& effect) { start_fetch(effect.remote, effect.bytes); }
void StoreService::perform(const store::CopyFailed& effect) { no_room(effect.remote, *effect.error); }
void StoreService::perform(const store::ExportedFreed& effect) { freed_exports_.push_back(desc_of(effect.id, 0)); }
void StoreService::perform(const store::PagesWanted& effect) { pages_->want(effect.ticket, effect.range); }
void StoreService::perform(const store::PagesUnwanted& effect) { pages_->drop(effect.ticket); }
void StoreService::perform(const store::TrimAsked& effect) {
  mail_.notice(effect.client, wire::Method::kStoreTrim, wire::Empty{});
}

void StoreService::plan_expiry() {
  const std::optional<store::TimePoint> next = server_->next_deadline();
  if (!next || (expiry_ && expiry_->first <= *next)) return;
  if (expiry_) loop_.cancel(*expiry_);
  expiry_ = loop_.at(*next, [this] {
    expiry_.reset();
    server_->expire(loop_.now());
    apply();
  });
}

// ------------------------------------------------------------------------------------------------------ life and death

void StoreService::client_closing(ProcessId client) {
  server_->client_closing(client);
  std::erase_if(requests_, [&](const auto& r) { return r.second.source == client; });
  for (auto& [remote, copying] : copying_)
    std::erase_if(copying.waiting, [&](const net::FrameHeader& request) { return request.source == client; });
  apply();
}

void StoreService::client_died(ProcessId client) {
  server_->client_died(client);
  server_->holder_gone(client);
  apply();
}

void StoreService::holder_gone(ProcessId holder) {
  server_->holder_gone(holder);
  apply();
}

void StoreService::node_gone(std::uint32_t node) {
  server_->holders_of_node_gone(node);
  if (exports_) exports_->withdraw_all(node);
  loop_.after(kCopyHold, [this, node, alive = std::weak_ptr<const bool>(alive_)] {  // SV-4
    if (alive.expired()) return;
    server_->origin_node_gone(node);
    apply();
  });
  apply();
}

// ------------------------------------------------------------------------------------------------------------ populate

void StoreService::plan_populate() {
  if (populating_) return;
  const std::optional<store::Range> range =
      server_->populate_ahead(std::min(kPopulateAhead, server_->layout().capacity / 4));
  if (!range) return;
  populating_ = true;
  pages_->ahead(*range);
}

}  // namespace troupe::node
