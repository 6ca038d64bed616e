#include "core/caller/actor_clients.h"

#include <fmt/format.h>

#include "core/runtime/context.h"
#include "core/runtime/runtime.h"
#include "core/caller/streams.h"

namespace troupe::worker {

namespace {
constexpr auto kCountsDelay = std::chrono::milliseconds(1);
constexpr int kLightLookups = 100;
constexpr auto kLightLookupDelay = std::chrono::milliseconds(10);
}  // namespace

void ActorClient::last_released() noexcept { clients_.drop(*this); }

void ActorClients::drop(ActorClient& client) noexcept {
  auto drop = [this, &client] {
    CoreLock lock(runtime_);
    dropped(client);
    delete &client;
  };
  if (runtime_.lock_held()) runtime_.defer(drop);
  else drop();
}

detail::Ptr<ActorClient> ActorClients::client(wire::HandleDesc desc) {
  ActorClient*& known = clients_[desc.actor];
  if (known && known->try_retain()) return detail::Ptr<ActorClient>::adopt(known);
  const ProcessId host = desc.host;
  known = new ActorClient(*this, std::move(desc));
  if (host != ProcessId{}) {  // no need to ask the head, which may not even have heard of it
    known->direct = known->subscribed = known->ever_alive = true;
    known->process = host;
    known->state = ActorClient::State::kAlive;
    if (runtime_.frames().is_dead(host)) die(*known, make_error<ActorDiedError>("its process died"));
  }
  return detail::Ptr<ActorClient>(known);
}

void ActorClients::dropped(ActorClient& client) {
  // What brought it here waits for the head's count no more: this process does not hold it (OH-1).
  for (std::uint64_t arrival : std::exchange(client.arrivals, {})) owner_.holds().confirmed(arrival);
  auto found = clients_.find(client.id());
  if (found == clients_.end() || found->second != &client) return;  // a new client has taken its place, and its count
  clients_.erase(found);
  if (client.state != ActorClient::State::kDead) count(client.id(), false);
}

// ------------------------------------------------------------------------------------------------------------ counting

void ActorClients::count(ActorId actor, bool held) {
  auto [at, fresh] = counts_.emplace(actor, held);
  if (!fresh && at->second != held) {
    counts_.erase(at);  // the two cancel out
    if (held)
      if (auto found = clients_.find(actor); found != clients_.end()) found->second->confirmed = true;
  }
  if (counts_timer_ || counts_.empty()) return;
  counts_timer_ = true;
  runtime_.add_timer(runtime_.deadline_after(kCountsDelay), [this] {
    counts_timer_ = false;
    flush_counts();
  });
}

/// A handle that just came is counted at once, together with what else came in its frame: its sender may be about to
/// die.
void ActorClients::count_soon() {
  if (std::exchange(counting_soon_, true)) return;
  runtime_.defer([this] {
    CoreLock lock(runtime_);
    counting_soon_ = false;
    flush_counts();
  });
}

void ActorClients::flush_counts() {
  wire::HandleCounts message{runtime_.self(), {}, {}};
  std::map<ActorId, bool> later;
  for (auto [actor, held] : std::exchange(counts_, {})) {
    if (held) message.held.push_back(actor);
    else if (names_asked_ == 0) message.dropped.push_back(actor);
    else later.emplace(actor, false);  // CAC-4
  }
  counts_ = std::move(later);
  if (message.held.empty() && message.dropped.empty()) return;
  const std::vector<ActorId> held = message.held;
  runtime_.requests().send<wire::Empty>(kHead, wire::Method::kHandleCounts, message, [this, held](Result<wire::Empty>) {
    for (ActorId actor : held)
      if (auto found = clients_.find(actor); found != clients_.end()) {
        found->second->confirmed = true;
        for (std::uint64_t arrival : std::exchange(found->second->arrivals, {})) owner_.holds().confirmed(arrival);
      }
  });
}

detail::HandlePtr ActorClients::handle(const wire::HandleDesc& desc, std::uint64_t arrival, bool& wait) {
  detail::Ptr<ActorClient> known = client(desc);
  wait = false;
  if (!known->confirmed) {
    if (!std::exchange(known->counted, true)) count(desc.actor, true);
    if (!known->confirmed && arrival != 0) {
      known->arrivals.push_back(arrival);
      wait = true;
      count_soon();
    }
  }
  return detail::HandlePtr(known.get());
}

// ------------------------------------------------------------------------------------------------------------- calling

void ActorClients::locate(ActorClient& client) {
  if (client.subscribed) return;
  client.subscribed = true;
  runtime_.requests().send<wire::ActorLocation>(
      kHead, wire::Method::kResolveActor, wire::ResolveActor{client.id()},
      [this, id = client.id()](Result<wire::ActorLocation> reply) {
        if (reply.ok()) return on_moved(*reply);
        auto found = clients_.find(id);
        if (found == clients_.end() || !found->second->try_retain()) return;
        const auto client = detail::Ptr<ActorClient>::adopt(found->second);
        if (client->light() && reply.error().code() == ErrorCode::kNotFound && client->lookups++ < kLightLookups) {
          client->subscribed = false;  // made a moment ago, and its host has not told the head yet
          runtime_.add_timer(runtime_.deadline_after(kLightLookupDelay), [this, client] { locate(*client); });
          return;
        }
        if (client->state != ActorClient::State::kDead) die(*client, reply.error_ptr());
      });
}

void ActorClients::submit(const detail::HandlePtr& handle, detail::OutgoingCall outgoing, CallKind kind,
                          const CallOptions* options, detail::ObjectPtr* returns, StreamState* stream) {
  ActorClient& client = client_of(handle);
  if (client.desc().max_pending_calls >= 0 && client.open >= std::size_t(client.desc().max_pending_calls))
    throw PendingCallsLimitError(fmt::format("actor {} ({}) has {} open calls of this process, its limit",
                                             to_string(client.id()), client.desc().class_name, client.open));
  PendingCall* call = calls_.make(std::move(outgoing), kind, returns);
  call->actor = handle;
  ++client.open;
  call->retries_left = client.desc().max_task_retries;
  const CallContext* context = current_context();
  call->caller = context ? context->caller : thread_caller();
  if (options) {
    auto info = std::make_shared<CallInfo>();
    info->name = options->name;
    info->key = options->idempotency_key;
    info->group = options->concurrency_group;
    info->timeout = options->timeout;
    call->info = std::move(info);
    if (options->max_retries != -2) call->retries_left = options->max_retries;
  }
  if (stream) {
    call->stream = stream;
    stream->call_id = call->id;
    auto info = call->info ? std::make_shared<CallInfo>(*call->info) : std::make_shared<CallInfo>();
    info->stream_buffer = stream->buffer();
    call->info = std::move(info);
  }
  if (options && options->timeout != kForever)
    call->timer = runtime_.add_timer(runtime_.deadline_after(options->timeout), [this, id = call->id] {
      if (PendingCall* late = calls_.find(id)) {
        late->timer = 0;
        ErrorRecord record;
        record.code = ErrorCode::kDeadlineExceeded;
        record.context = calls_.context_of(*late);
        record.message = "the call " + calls_.name_of(*late) + " did not end within its timeout";
        cancel(*late, {}, Error::make(std::move(record)));
      }
    });
  if (runtime_.shutting_down()) return calls_.fail(*call, runtime_.shutdown_reason());
  if (ErrorPtr failed = calls_.resolve(*call)) return calls_.fail(*call, failed);
  auto& waiting = client.waiting;
  const bool behind = !client.out_of_order() && !waiting.empty() && waiting.contains(call->caller);
  if (call->unresolved > 0 || behind) {
    call->state = PendingCall::State::kWaiting;
    waiting[call->caller].push_back(*call);
    return;
  }
  route(client, *call);
}

void ActorClients::arguments_ready(PendingCall& call) {
  ActorClient& client = client_of(call.actor);
  for (const auto& dependency : call.dependencies) {
    ObjectEntry& entry = entry_of(dependency);
    if (entry.state() != ObjectEntry::kFailed) continue;
    const std::uint64_t caller = call.caller;
    const detail::Ptr<ActorClient> keep(&client);
    client.waiting[caller].remove(call);
    calls_.fail(call, entry.error);
    return flush_caller(client, caller);
  }
  if (client.out_of_order()) {
    client.waiting[call.caller].remove(call);
    return route(client, call);
  }
  flush_caller(client, call.caller);
}

void ActorClients::flush_caller(ActorClient& client, std::uint64_t caller) {
  for (;;) {  // the list is found anew each time: a call that fails on its way may come back here for a later one
    auto found = client.waiting.find(caller);
    if (found == client.waiting.end()) return;
    PendingCall* call = found->second.front();
    if (!call) return void(client.waiting.erase(found));
    if (call->unresolved > 0) return;
    found->second.remove(*call);
    route(client, *call);
  }
}

void ActorClients::route(ActorClient& client, PendingCall& call) {
  if (client.state == ActorClient::State::kDead)
    return calls_.fail(call, error_for(client, call, client.death, Outcome::kNotExecuted));
  call.state = PendingCall::State::kQueued;
  client.queued.push_back(call);
  flush_queue(client);
}

void ActorClients::flush_queue(ActorClient& client) {
  if (client.state != ActorClient::State::kAlive || client.process_dead || client.awaits_death) {
    if (client.state == ActorClient::State::kLocating) locate(client);
    return;
  }
  while (PendingCall* call = client.queued.pop_front()) {
    if (ErrorPtr too_large = calls_.check_size(*call)) {
      calls_.fail(*call, too_large);
      continue;
    }
    client.sent.push_back(*call);
    calls_.send(*call, client.process);
  }
}

void ActorClients::on_reply(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source) {
  ActorClient& client = client_of(call.actor);
  const detail::Ptr<ActorClient> keep(&client);
  if (comes_back(client, call, head)) return old_light_settled(client);
  client.sent.remove(call);
  if (call.cancelled) {
    owner_.values().discard(head, in, source);
    calls_.forget(call);
    return old_light_settled(client);
  }
  const bool construction = call.kind == CallKind::kConstructLight;
  if (head.status == ReplyStatus::kError) {
    Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(in.rest());
    if (record.ok() && record->outcome == Outcome::kNotExecuted && call.attempt > 0)
      record->outcome = Outcome::kUnknown;  // CAC-5: this attempt was not
    const ErrorPtr error = record.ok() ? Error::make(*record) : record.error_ptr();
    calls_.fail(call, error);
    if (construction) die(client, error);
  } else {
    if (construction) {
      client.ever_alive = true;
      for (auto& entry : std::exchange(client.ready_refs, {})) owner_.objects().complete(*entry, {});
    }
    calls_.succeed(call, head, in, source);
  }
  old_light_settled(client);
}

/// CAC-6
bool ActorClients::comes_back(ActorClient& client, PendingCall& call, const ReplyHead& head) {
  if (head.status != ReplyStatus::kError || head.index != kNotBegun || call.cancelled) return false;
  if (!client.light() || client.direct || client.state == ActorClient::State::kDead) return false;
  call.suspect = call.returned = true;
  ++client.returned;
  return true;
}

void ActorClients::cancel(PendingCall& call, const CancelOptions& options, ErrorPtr error) {
  if (call.cancelled) return;
  const std::uint64_t why = error && error->code() == ErrorCode::kDeadlineExceeded ? kCancelDeadline : 0;
  if (!error) {
    ErrorRecord record;
    record.code = ErrorCode::kCancelled;
    record.context = calls_.context_of(call);
    record.message = "the call " + calls_.name_of(call) + " was cancelled";
    error = Error::make(std::move(record));
  }
  ActorClient& client = client_of(call.actor);
  const detail::Ptr<ActorClient> keep(&client);
  switch (call.state) {
    case PendingCall::State::kWaiting: {
      const std::uint64_t caller = call.caller;
      client.waiting[caller].remove(call);
      calls_.fail(call, error);
      return flush_caller(client, caller);
    }
    case PendingCall::State::kQueued:
      client.queued.remove(call);
      return calls_.fail(call, error);
    case PendingCall::State::kSent:
      calls_.fail_results(call, error);
      call.cancelled = true;
      runtime_.frames().control(call.target, Control::kCancel, call.id,
                                why | (options.recursive ? kCancelRecursive : 0));
      return;
    default: calls_.fail(call, error);
  }
}

}  // namespace troupe::worker
