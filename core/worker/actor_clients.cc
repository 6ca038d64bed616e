#include "core/worker/actor_clients.h"

#include <fmt/format.h>

#include "core/worker/context.h"
#include "core/worker/core.h"
#include "core/worker/streams.h"

namespace troupe::worker {

namespace {
constexpr auto kCountsDelay = std::chrono::milliseconds(1);
constexpr auto kDeathNoticeGrace = std::chrono::seconds(5);
constexpr auto kHeadTimeout = std::chrono::seconds(30);
constexpr int kLightLookups = 100;
constexpr auto kLightLookupDelay = std::chrono::milliseconds(10);
}  // namespace

void ActorClient::last_released() noexcept {
  auto drop = [this] {
    CoreLock lock(core_);
    core_.actors().dropped(*this);
    delete this;
  };
  if (CoreLock::held(core_)) core_.defer(drop);
  else drop();
}

detail::Ptr<ActorClient> ActorClients::client(const wire::HandleDesc& desc) {
  ActorClient*& known = clients_[desc.actor];
  if (known && known->try_retain()) return detail::Ptr<ActorClient>::adopt(known);
  known = new ActorClient(core_, desc);
  if (desc.host != ProcessId{}) {  // no need to ask the head, which may not even have heard of it
    known->direct = known->subscribed = known->ever_alive = true;
    known->process = desc.host;
    known->state = ActorClient::State::kAlive;
    if (core_.courier().is_dead(desc.host)) die(*known, make_error<ActorDiedError>("its process died"));
  }
  return detail::Ptr<ActorClient>(known);
}

void ActorClients::dropped(ActorClient& client) {
  auto found = clients_.find(client.id());
  if (found == clients_.end() || found->second != &client) return;  // a new client has taken its place, and its count
  clients_.erase(found);
  if (client.state != ActorClient::State::kDead) count(client.id(), false);
}

// ------------------------------------------------------------------------------------------------------------------ counting

void ActorClients::count(ActorId actor, bool held) {
  auto [at, fresh] = counts_.emplace(actor, held);
  if (!fresh && at->second != held) {
    counts_.erase(at);  // the two cancel out
    if (held)
      if (auto found = clients_.find(actor); found != clients_.end()) found->second->confirmed = true;
  }
  if (counts_timer_ || counts_.empty()) return;
  counts_timer_ = true;
  core_.add_timer(exec::deadline_after(kCountsDelay), [this] { flush_counts(); });
}

void ActorClients::flush_counts() {
  counts_timer_ = false;
  wire::HandleCounts message{core_.self(), {}, {}};
  for (auto [actor, held] : std::exchange(counts_, {})) (held ? message.held : message.dropped).push_back(actor);
  if (message.held.empty() && message.dropped.empty()) return;
  const std::vector<ActorId> held = message.held;
  core_.requests().send<wire::Empty>(kHead, wire::Method::kHandleCounts, message, [this, held](Result<wire::Empty>) {
    for (ActorId actor : held)
      if (auto found = clients_.find(actor); found != clients_.end()) {
        found->second->confirmed = true;
        for (std::uint64_t arrival : std::exchange(found->second->arrivals, {})) core_.transit().arrival_confirmed(arrival);
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
    }
  }
  return detail::HandlePtr(known.get());
}

// ------------------------------------------------------------------------------------------------------------------ creating

struct ActorClients::Creation {
  detail::Ptr<ActorClient> client;
  wire::ActorSpec spec;
  detail::Value arguments;
  std::vector<detail::ObjectPtr> dependencies;
  std::size_t unresolved = 0;
};

namespace {
wire::ActorSpec spec_of(const ActorOptions& options) {
  wire::ActorSpec spec;
  spec.name = options.name;
  spec.name_space = options.name_space;
  spec.get_if_exists = options.get_if_exists;
  spec.lifetime = options.lifetime;
  spec.resources = options.resources;
  if (spec.resources.cpus == kUnset) spec.resources.cpus = 0;
  spec.max_restarts = options.max_restarts;
  spec.restart_window = options.restart_window;
  spec.restart_backoff = options.restart_backoff;
  spec.max_task_retries = options.max_task_retries;
  spec.max_concurrency = options.max_concurrency;
  spec.threads = options.threads;
  spec.concurrency_groups = options.concurrency_groups;
  spec.out_of_order = options.out_of_order;
  spec.max_pending_calls = options.max_pending_calls;
  spec.isolation = options.isolation;
  spec.checkpoint_every = options.checkpoint_every;
  spec.scheduling = options.scheduling;
  spec.labels = options.labels;
  spec.env = options.env;
  return spec;
}

void validate(const ActorOptions& options) {
  auto refuse = [](const std::string& text) { throw InvalidArgumentError("an actor's options: " + text); };
  if (options.lifetime == Lifetime::kDetached && options.name.empty()) refuse("a detached actor needs a name");
  if (options.get_if_exists && options.name.empty()) refuse("get_if_exists needs a name");
  if (options.max_concurrency < 1 || options.threads < 1) refuse("max_concurrency and threads are at least 1");
  for (auto& [group, limit] : options.concurrency_groups)
    if (limit < 1) refuse("the limit of concurrency group '" + group + "' is at least 1");
  if (options.isolation == Isolation::kLight && (options.threads > 1 || options.resources.gpus > 0 || !options.env.env_vars.empty() || !options.env.working_dir.empty()))
    refuse("threads, gpus and env are not for light actors");
}
}  // namespace

namespace {
/// Nothing that the head must decide or keep: such a light actor is made by its creator in a host of this node.
bool is_plain_light(const ActorOptions& o) {
  return o.isolation == Isolation::kLight && o.name.empty() && o.lifetime == Lifetime::kScoped && o.max_restarts == 0 && o.max_task_retries == 0 &&
         o.max_concurrency == 1 && o.concurrency_groups.empty() && !o.out_of_order && o.max_pending_calls < 0 && o.checkpoint_every == Duration::zero() &&
         o.labels.match.empty() && std::holds_alternative<Hybrid>(o.scheduling) && o.resources.custom.empty() && o.resources.memory == 0 &&
         (o.resources.cpus == kUnset || o.resources.cpus == 0);
}
}  // namespace

/// The construction is the first call on the way to the host: what is called later arrives later. The head is told by the host.
detail::HandlePtr ActorClients::create_light(detail::OutgoingCall construction, const std::string& class_name) {
  wire::HandleDesc desc{{core_.self(), ++last_actor_}, {}, class_name, 0, -1, 2, {}};
  const detail::Ptr<ActorClient> client = this->client(desc);
  client->direct = client->confirmed = client->counted = client->subscribed = true;
  construction.returns = 0;
  PendingCall* call = core_.calls().make(std::move(construction), CallKind::kConstructLight, nullptr);
  call->actor = detail::HandlePtr(client.get());
  ++client->open;
  call->state = PendingCall::State::kQueued;
  client->queued.push_back(*call);
  without_host_.push_back(client);
  if (!light_hosts_.empty()) hosts_known();
  else if (!std::exchange(hosts_asked_, true))
    core_.requests().send<wire::LightHostReply>(core_.daemon(), wire::Method::kLightHost, wire::LightHostRequest{core_.welcome().job}, [this](Result<wire::LightHostReply> reply) {
      hosts_asked_ = false;
      if (reply.ok() && !reply->hosts.empty()) {
        light_hosts_ = reply->hosts;
        return hosts_known();
      }
      const ErrorPtr error = reply.ok() ? make_error<ActorDiedError>("this node has no process for light actors") : reply.error_ptr();
      for (auto& client : std::exchange(without_host_, {})) die(*client, error);
    });
  return detail::HandlePtr(client.get());
}

void ActorClients::hosts_known() {
  for (auto& client : std::exchange(without_host_, {})) {
    client->process = client->desc().host = light_hosts_[next_host_++ % light_hosts_.size()];
    client->state = ActorClient::State::kAlive;
    flush_queue(*client);
  }
}

detail::HandlePtr ActorClients::create(detail::OutgoingCall construction, const ActorOptions* given, const std::string& class_name) {
  static const ActorOptions defaults;
  const ActorOptions& options = given ? *given : defaults;
  validate(options);
  auto creation = std::make_shared<Creation>();
  creation->spec = spec_of(options);
  creation->spec.class_name = class_name;
  creation->spec.constructor = construction.function->index;
  if (options.get_if_exists) {
    Result<detail::HandlePtr> existing = find(options.name, options.name_space);
    if (existing.ok()) return *existing;
  }
  CoreLock lock(core_);
  if (is_plain_light(options) && construction.dependencies.empty()) return create_light(std::move(construction), class_name);
  wire::ActorSpec& spec = creation->spec;
  spec.id = {core_.self(), ++last_actor_};
  spec.job = core_.welcome().job;
  spec.creator = core_.self();
  if (spec.name_space.empty()) spec.name_space = core_.welcome().name_space;
  wire::HandleDesc desc{spec.id, spec.name, class_name, spec.max_task_retries, spec.max_pending_calls, 0, {}};
  desc.flags = std::uint8_t((options.out_of_order ? 1 : 0) | (options.isolation == Isolation::kLight ? 2 : 0) | (options.lifetime == Lifetime::kDetached ? 4 : 0));
  creation->client = client(desc);
  creation->client->state = ActorClient::State::kCreating;
  creation->client->confirmed = creation->client->counted = true;  // the creation is the first count
  creation->arguments = std::move(construction.arguments);
  creation->dependencies = std::move(construction.dependencies);
  const detail::HandlePtr handle(creation->client.get());
  for (const auto& dependency : creation->dependencies) {
    ObjectEntry& entry = entry_of(dependency);
    if (entry.state() != ObjectEntry::kPending) continue;
    ++creation->unresolved;
    core_.objects().want(entry);
    entry.rare().callbacks.push_back([this, creation] {
      CoreLock lock(core_);
      if (--creation->unresolved == 0) start_creation(creation);
    });
  }
  if (creation->unresolved == 0) start_creation(creation);
  return handle;
}

/// All arguments are there: asks the head. The arguments travel as one value: the encoded call and, behind it, each
/// dependency as a value of its own in the same lists.
void ActorClients::start_creation(const std::shared_ptr<Creation>& creation) {
  ActorClient& client = *creation->client;
  for (const auto& dependency : creation->dependencies)
    if (entry_of(dependency).state() == ObjectEntry::kFailed) return creation_failed(client, entry_of(dependency).error);
  Outgoing hold(kHead);
  creation->spec.arguments = core_.transit().describe(creation->arguments, hold);
  for (const auto& dependency : creation->dependencies) creation->spec.dependencies.push_back(core_.transit().describe(entry_of(dependency).value, hold));
  // The value's own holds last as long as this process holds the creation: until the actor's death (see `keep`).
  auto keep = std::make_shared<Outgoing>(std::move(hold));
  client.keep_arguments = keep;
  core_.requests().send<wire::CreateActorReply>(kHead, wire::Method::kCreateActor, creation->spec, [this, creation](Result<wire::CreateActorReply> reply) {
    ActorClient& client = *creation->client;
    if (!reply.ok()) return creation_failed(client, reply.error_ptr());
    if (client.state == ActorClient::State::kCreating) client.state = ActorClient::State::kLocating;
  });
  locate(client);
}

void ActorClients::creation_failed(ActorClient& client, const ErrorPtr& error) { die(client, error); }

Result<detail::HandlePtr> ActorClients::find(const std::string& name, const std::string& name_space) {
  wire::NamedActor question{name, name_space.empty() ? core_.welcome().name_space : name_space};
  Result<wire::NamedActorReply> reply = core_.requests().call<wire::NamedActorReply>(kHead, wire::Method::kGetNamedActor, question, kHeadTimeout);
  if (!reply.ok()) return reply.error_ptr();
  CoreLock lock(core_);
  bool wait = false;
  return handle(reply->handle, 0, wait);
}

void ActorClients::kill(const detail::HandlePtr& handle, bool restart) {
  {
    CoreLock lock(core_);
    ActorClient& client = client_of(handle);
    if (client.state == ActorClient::State::kDead) return;
  }
  (void)core_.requests().call<wire::Empty>(kHead, wire::Method::kKillActor, wire::KillActor{client_of(handle).id(), restart}, kHeadTimeout);
}

// ------------------------------------------------------------------------------------------------------------------- calling

void ActorClients::locate(ActorClient& client) {
  if (client.subscribed) return;
  client.subscribed = true;
  core_.requests().send<wire::ActorLocation>(kHead, wire::Method::kResolveActor, wire::ResolveActor{client.id()}, [this, id = client.id()](Result<wire::ActorLocation> reply) {
    if (reply.ok()) return on_moved(*reply);
    auto found = clients_.find(id);
    if (found == clients_.end() || !found->second->try_retain()) return;
    const auto client = detail::Ptr<ActorClient>::adopt(found->second);
    if (client->light() && reply.error().code() == ErrorCode::kNotFound && client->lookups++ < kLightLookups) {
      client->subscribed = false;  // made a moment ago, and its host has not told the head yet
      core_.add_timer(exec::deadline_after(kLightLookupDelay), [this, client] { locate(*client); });
      return;
    }
    if (client->state != ActorClient::State::kDead) die(*client, reply.error_ptr());
  });
}

void ActorClients::submit(const detail::HandlePtr& handle, detail::OutgoingCall outgoing, CallKind kind, const CallOptions* options,
                          detail::ObjectPtr* returns, StreamState* stream) {
  ActorClient& client = client_of(handle);
  if (client.desc().max_pending_calls >= 0 && client.open >= std::size_t(client.desc().max_pending_calls))
    throw PendingCallsLimitError(fmt::format("actor {} ({}) has {} open calls of this process, its limit", to_string(client.id()), client.desc().class_name, client.open));
  PendingCall* call = core_.calls().make(std::move(outgoing), kind, returns);
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
    core_.add_timer(exec::deadline_after(options->timeout), [this, id = call->id] {
      if (PendingCall* late = core_.calls().find(id)) {
        ErrorRecord record;
        record.code = ErrorCode::kDeadlineExceeded;
        record.context = core_.calls().context_of(*late);
        record.message = "the call " + core_.calls().name_of(*late) + " did not end within its timeout";
        cancel(*late, {}, Error::make(std::move(record)));
      }
    });
  if (core_.shutting_down()) return core_.calls().fail(*call, core_.shutdown_reason());
  if (ErrorPtr failed = core_.calls().resolve(*call)) return core_.calls().fail(*call, failed);
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
    core_.calls().fail(call, entry.error);
    return flush_caller(client, caller);
  }
  if (client.out_of_order()) {
    client.waiting[call.caller].remove(call);
    return route(client, call);
  }
  flush_caller(client, call.caller);
}

void ActorClients::flush_caller(ActorClient& client, std::uint64_t caller) {
  auto found = client.waiting.find(caller);
  if (found == client.waiting.end()) return;
  while (PendingCall* call = found->second.front()) {
    if (call->unresolved > 0) return;
    found->second.remove(*call);
    route(client, *call);
  }
  client.waiting.erase(found);
}

void ActorClients::route(ActorClient& client, PendingCall& call) {
  if (client.state == ActorClient::State::kDead) return core_.calls().fail(call, error_for(client, call, client.death, Outcome::kNotExecuted));
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
    client.sent.push_back(*call);
    core_.calls().send(*call, client.process);
  }
}

void ActorClients::on_reply(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source) {
  ActorClient& client = client_of(call.actor);
  const detail::Ptr<ActorClient> keep(&client);
  client.sent.remove(call);
  if (call.cancelled) return core_.calls().forget(call);
  const bool construction = call.kind == CallKind::kConstructLight;
  if (head.status == ReplyStatus::kError) {
    Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(in.rest());
    const ErrorPtr error = record.ok() ? Error::make(*record) : record.error_ptr();
    core_.calls().fail(call, error);
    if (construction) die(client, error);
  } else {
    if (construction) {
      client.ever_alive = true;
      for (auto& entry : std::exchange(client.ready_refs, {})) core_.objects().complete(*entry, {});
    }
    core_.calls().succeed(call, head, in, source);
  }
}

void ActorClients::closed(PendingCall& call) {
  ActorClient& client = client_of(call.actor);
  if (client.open > 0) --client.open;
}

void ActorClients::cancel(PendingCall& call, const CancelOptions& options, ErrorPtr error) {
  if (call.cancelled) return;
  const std::uint64_t why = error && error->code() == ErrorCode::kDeadlineExceeded ? kCancelDeadline : 0;
  if (!error) {
    ErrorRecord record;
    record.code = ErrorCode::kCancelled;
    record.context = core_.calls().context_of(call);
    record.message = "the call " + core_.calls().name_of(call) + " was cancelled";
    error = Error::make(std::move(record));
  }
  ActorClient& client = client_of(call.actor);
  const detail::Ptr<ActorClient> keep(&client);
  switch (call.state) {
    case PendingCall::State::kWaiting: {
      const std::uint64_t caller = call.caller;
      client.waiting[caller].remove(call);
      core_.calls().fail(call, error);
      return flush_caller(client, caller);
    }
    case PendingCall::State::kQueued:
      client.queued.remove(call);
      return core_.calls().fail(call, error);
    case PendingCall::State::kSent:
      core_.calls().fail_results(call, error);
      call.cancelled = true;
      core_.courier().control(call.target, Control::kCancel, call.id, why | (options.recursive ? kCancelRecursive : 0));
      return;
    default: core_.calls().fail(call, error);
  }
}

// ----------------------------------------------------------------------------------------------------- ready, monitor, deaths

detail::ObjectPtr ActorClients::ready(const detail::HandlePtr& handle) {
  ActorClient& client = client_of(handle);
  ObjectEntry* entry = core_.objects().make_owned();
  const detail::ObjectPtr ref = detail::ObjectPtr::adopt(entry);
  if (client.state == ActorClient::State::kDead) core_.objects().fail(*entry, client.death);
  else if (client.ever_alive) core_.objects().complete(*entry, {});
  else {
    client.ready_refs.push_back(ObjectEntryPtr(entry));
    if (client.state == ActorClient::State::kLocating) locate(client);
  }
  return ref;
}

detail::ObjectPtr ActorClients::monitor(const detail::HandlePtr& handle) {
  ObjectEntry* entry = core_.objects().make_owned();
  const detail::ObjectPtr ref = detail::ObjectPtr::adopt(entry);
  core_.requests().send<ActorDeath>(kHead, wire::Method::kMonitorActor, wire::ResolveActor{client_of(handle).id()}, [this, ref](Result<ActorDeath> death) {
    if (!death.ok()) return core_.objects().fail(entry_of(ref), death.error_ptr());
    detail::Value value;
    const std::vector<std::byte> bytes = wire::encode_message(*death);
    value.body = detail::Bytes(bytes.data(), bytes.size());
    core_.objects().complete(entry_of(ref), std::move(value));
  });
  return ref;
}

void ActorClients::on_moved(const wire::ActorLocation& location) {
  auto found = clients_.find(location.actor);
  if (found == clients_.end() || !found->second->try_retain()) return;
  const auto keep = detail::Ptr<ActorClient>::adopt(found->second);
  ActorClient& client = *keep;
  if (client.state == ActorClient::State::kDead) return;
  const ErrorPtr error = location.error ? Error::make(*location.error) : nullptr;
  const bool leaves = client.state == ActorClient::State::kAlive && !(location.state == wire::ActorState::kAlive && location.process == client.process);
  if (leaves && !client.sent.empty() && !client.process_dead && !core_.courier().is_dead(client.process) && location.state != wire::ActorState::kAlive &&
      !(client.light() && location.state == wire::ActorState::kDead)) {
    // What the old process had begun is known only with its death notice; it must not be long in coming.
    client.awaits_death = true;
    core_.add_timer(exec::deadline_after(kDeathNoticeGrace), [this, id = client.id(), process = client.process] {
      auto late = clients_.find(id);
      if (late == clients_.end() || !late->second->awaits_death || late->second->process != process || !late->second->try_retain()) return;
      const auto client = detail::Ptr<ActorClient>::adopt(late->second);
      client->awaits_death = false;
      mark_suspects(*client, ~std::uint64_t(0));
      old_process_settled(*client);
    });
  }
  if (error) client.last_death = error;
  switch (location.state) {
    case wire::ActorState::kPending: client.state = ActorClient::State::kLocating; return;
    case wire::ActorState::kRestarting:
      client.state = ActorClient::State::kRestarting;
      if (!client.awaits_death) resend_or_fail(client);
      return;
    case wire::ActorState::kAlive:
      client.state = ActorClient::State::kAlive;
      client.ever_alive = true;
      if (!client.awaits_death) {
        const bool elsewhere = std::exchange(client.process, location.process) != location.process;
        client.process_dead = core_.courier().is_dead(location.process);
        if (elsewhere) resend_or_fail(client);
      } else {
        client.next_process = location.process;  // taken when the old one's death notice has come
      }
      for (auto& entry : std::exchange(client.ready_refs, {})) core_.objects().complete(*entry, {});
      return flush_queue(client);
    case wire::ActorState::kDead:
      die(client, error ? error : make_error<ActorDiedError>("the actor is dead"));
  }
}

/// What the old process had begun is known now: the head's word, which came first, is followed.
void ActorClients::old_process_settled(ActorClient& client) {
  if (client.next_process != ProcessId{}) {
    client.process = std::exchange(client.next_process, ProcessId{});
    client.process_dead = core_.courier().is_dead(client.process);
  }
  resend_or_fail(client);
}

void ActorClients::mark_suspects(ActorClient& client, std::uint64_t begun) {
  for (PendingCall* call = client.sent.front(); call; call = call->next) {
    call->suspect = true;
    call->had_begun = call->number <= begun;
  }
}

/// The head has decided that the actor goes on: suspects are sent again or fail, in order (AC-2).
void ActorClients::resend_or_fail(ActorClient& client) {
  if (client.state == ActorClient::State::kDead) return die(client, client.death);
  std::vector<PendingCall*> again;
  CallList open;
  std::swap(open, client.sent);
  while (PendingCall* call = open.pop_front()) {
    if (call->cancelled) { core_.calls().forget(*call); continue; }
    const bool had_begun = std::exchange(call->had_begun, false) || !call->suspect;
    call->suspect = false;
    if (had_begun) {
      if (call->retries_left == 0) {
        core_.calls().fail(*call, error_for(client, *call, client.last_death, Outcome::kUnknown));
        continue;
      }
      if (call->retries_left > 0) --call->retries_left;
      ++call->attempt;
    }
    call->state = PendingCall::State::kQueued;
    again.push_back(call);
  }
  for (auto at = again.rbegin(); at != again.rend(); ++at) client.queued.push_front(**at);
  flush_queue(client);
}

void ActorClients::die(ActorClient& client, const ErrorPtr& error) {
  client.state = ActorClient::State::kDead;
  client.death = error;
  client.keep_arguments.reset();
  for (auto& entry : std::exchange(client.ready_refs, {})) core_.objects().fail(*entry, error);
  for (std::uint64_t arrival : std::exchange(client.arrivals, {})) core_.transit().arrival_confirmed(arrival);
  const bool replies_may_come = client.awaits_death || (client.light() && !client.process_dead);
  if (!replies_may_come)
    while (PendingCall* call = client.sent.front()) {
      client.sent.remove(*call);
      if (call->cancelled) core_.calls().forget(*call);
      else core_.calls().fail(*call, error_for(client, *call, error, call->suspect && !call->had_begun ? Outcome::kNotExecuted : Outcome::kUnknown));
    }
  while (PendingCall* call = client.queued.pop_front()) core_.calls().fail(*call, error_for(client, *call, error, Outcome::kNotExecuted));
  for (auto& [caller, calls] : std::exchange(client.waiting, {})) {
    CallList list = calls;
    while (PendingCall* call = list.pop_front()) core_.calls().fail(*call, error_for(client, *call, error, Outcome::kNotExecuted));
  }
}

/// The actor's death as this call sees it. Errors of construction pass through as they are.
ErrorPtr ActorClients::error_for(ActorClient& client, PendingCall& call, const ErrorPtr& death, Outcome outcome) const {
  if (death && death->code() != ErrorCode::kActorDied && !client.ever_alive) return death;
  ErrorRecord record;
  if (death) record = death->record();
  record.code = ErrorCode::kActorDied;
  record.outcome = outcome;
  const ErrorContext context = core_.calls().context_of(call);
  record.context.function = context.function;
  record.context.task_id = context.task_id;
  record.context.actor_id = to_string(client.id());
  record.context.attempt = context.attempt;
  if (record.message.empty()) record.message = "the actor's process died";
  record.message = fmt::format("actor {} ({}): {}; the call {} {}", to_string(client.id()), client.desc().class_name, record.message,
                               record.context.function, outcome == Outcome::kNotExecuted ? "was not executed" : "may have been executed");
  return Error::make(std::move(record));
}

void ActorClients::process_died(const wire::ProcessDied& died, std::uint64_t begun) {
  std::vector<detail::Ptr<ActorClient>> hit;
  for (auto& [id, client] : clients_)
    if (client->process == died.process && client->try_retain()) hit.push_back(detail::Ptr<ActorClient>::adopt(client));
  for (auto& client : hit) {
    mark_suspects(*client, begun);
    client->last_death = make_error<ActorDiedError>(died.reason.empty() ? std::string("its process died") : "its process died: " + died.reason);
    if (std::exchange(client->awaits_death, false)) old_process_settled(*client);
    else client->process_dead = true;
    if (client->direct && client->state != ActorClient::State::kDead) die(*client, client->last_death);  // it has no second life
  }
  if (std::erase(light_hosts_, died.process) > 0) next_host_ = 0;
}

void ActorClients::node_died(std::uint32_t node, const ErrorPtr& error) {
  std::vector<detail::Ptr<ActorClient>> hit;
  for (auto& [id, client] : clients_)
    if (client->process.node == node && client->try_retain()) hit.push_back(detail::Ptr<ActorClient>::adopt(client));
  for (auto& client : hit) {
    if (client->process_dead) continue;
    mark_suspects(*client, ~std::uint64_t(0));
    client->last_death = make_error<ActorDiedError>(error->message());
    if (std::exchange(client->awaits_death, false)) old_process_settled(*client);
    else client->process_dead = true;
  }
}

}  // namespace troupe::worker
