// Making actors, finding them by name, ending them: the calling side's questions to the head.
#include <fmt/format.h>

#include <optional>

#include "core/caller/actor_clients.h"
#include "core/runtime/context.h"
#include "core/runtime/runtime.h"
#include "core/runtime/waits.h"
#include "core/wire/kept.h"

namespace troupe::worker {

namespace {
constexpr auto kHeadTimeout = std::chrono::seconds(30);
/// So many light actors of one creator share a host before the next one is used: what is made together mostly talks to
/// each other, and within one process a message costs no wake-up and cannot overtake what its sender's sender had sent
/// before.
constexpr std::size_t kLightNeighbours = 32 * 1024;
}

struct ActorClients::Creation {
  detail::Ptr<ActorClient> client;
  wire::ActorSpec spec;
  detail::Value arguments;
  std::vector<detail::ObjectPtr> dependencies;
  std::size_t unresolved = 0;
  std::optional<wire::CreateActorReply> reply;
  std::optional<exec::Deadline> asked;  // when the head was asked
  detail::HandlePtr existing;           // with get_if_exists: whose name it was
  exec::Waiter* waiter = nullptr;       // with get_if_exists: who waits for all of it
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
  if (options.isolation == Isolation::kLight && (options.threads > 1 || options.resources.gpus > 0 ||
                                                 !options.env.env_vars.empty() || !options.env.working_dir.empty()))
    refuse("threads, gpus and env are not for light actors");
}
}  // namespace

namespace {
/// Nothing that the head must decide or keep: such a light actor is made by its creator in a host of this node.
bool is_plain_light(const ActorOptions& o) {
  return o.isolation == Isolation::kLight && o.name.empty() && o.lifetime == Lifetime::kScoped && o.max_restarts == 0 &&
         o.max_task_retries == 0 && o.max_concurrency == 1 && o.concurrency_groups.empty() && !o.out_of_order &&
         o.max_pending_calls < 0 && o.checkpoint_every == Duration::zero() && o.labels.match.empty() &&
         std::holds_alternative<Hybrid>(o.scheduling) && o.resources.custom.empty() && o.resources.memory == 0 &&
         (o.resources.cpus == kUnset || o.resources.cpus == 0);
}
}  // namespace

/// The construction is the first call on the way to the host: what is called later arrives later. The head is told by
/// the host.
detail::HandlePtr ActorClients::create_light(detail::OutgoingCall construction, const std::string& class_name) {
  wire::HandleDesc desc{{runtime_.self(), ++last_actor_}, {}, class_name, 0, -1, wire::kHandleLight, {}};
  const detail::Ptr<ActorClient> client = this->client(std::move(desc));
  client->direct = client->confirmed = client->counted = client->subscribed = true;
  construction.returns = 0;
  PendingCall* call = calls_.make(std::move(construction), CallKind::kConstructLight, nullptr);
  call->actor = detail::HandlePtr(client.get());
  ++client->open;
  call->state = PendingCall::State::kQueued;
  client->queued.push_back(*call);
  without_host_.push_back(client);
  if (!light_hosts_.empty()) hosts_known();
  else if (!std::exchange(hosts_asked_, true))
    runtime_.requests().send<wire::LightHostReply>(
        runtime_.daemon(), wire::Method::kLightHost, wire::LightHostRequest{runtime_.welcome().job},
        [this](Result<wire::LightHostReply> reply) {
          hosts_asked_ = false;
          if (reply.ok() && !reply->hosts.empty()) {
            light_hosts_ = reply->hosts;
            return hosts_known();
          }
          const ErrorPtr error =
              reply.ok() ? make_error<ActorDiedError>("this node has no process for light actors") : reply.error_ptr();
          for (auto& client : std::exchange(without_host_, {})) die(*client, error);
        });
  return detail::HandlePtr(client.get());
}

void ActorClients::hosts_known() {
  for (auto& client : std::exchange(without_host_, {})) {
    client->process = client->desc().host = light_hosts_[next_host_++ / kLightNeighbours % light_hosts_.size()];
    client->state = ActorClient::State::kAlive;
    flush_queue(*client);
  }
}

detail::HandlePtr ActorClients::create(detail::OutgoingCall construction, const ActorOptions* given,
                                       const std::string& class_name) {
  static const ActorOptions defaults;
  const ActorOptions& options = given ? *given : defaults;
  validate(options);
  if (is_plain_light(options) && construction.dependencies.empty()) {
    CoreLock lock(runtime_);
    return create_light(std::move(construction), class_name);
  }
  auto creation = std::make_shared<Creation>();
  creation->spec = spec_of(options);
  creation->spec.class_name = class_name;
  creation->spec.constructor = construction.function->index;
  if (options.get_if_exists) {
    Result<detail::HandlePtr> existing = find({options.name, options.name_space}, class_name);
    if (existing.ok()) return *existing;
    if (existing.error().code() == ErrorCode::kInvalidArgument) existing.error().raise();  // a name of another class
  }
  std::optional<exec::Waiter> waiter;
  if (options.get_if_exists) waiter.emplace(runtime_);
  std::optional<CoreLock> lock(std::in_place, runtime_);
  wire::ActorSpec& spec = creation->spec;
  spec.id = {runtime_.self(), ++last_actor_};
  spec.job = runtime_.welcome().job;
  spec.creator = runtime_.self();
  if (spec.name_space.empty()) spec.name_space = runtime_.welcome().name_space;
  creation->client = client(wire::handle_of(spec));
  creation->client->state = ActorClient::State::kCreating;
  creation->client->confirmed = creation->client->counted = true;  // the creation is the first count
  creation->arguments = std::move(construction.arguments);
  creation->dependencies = std::move(construction.dependencies);
  const detail::HandlePtr handle(creation->client.get());
  for (const auto& dependency : creation->dependencies) {
    ObjectEntry& entry = entry_of(dependency);
    if (entry.state() != ObjectEntry::kPending) continue;
    ++creation->unresolved;
    owner_.objects().want(entry);
    entry.rare().callbacks.push_back([this, creation] {
      CoreLock lock(runtime_);
      if (--creation->unresolved == 0) start_creation(creation);
    });
  }
  if (creation->unresolved == 0) start_creation(creation);
  if (!options.get_if_exists) return handle;
  lock.reset();
  return existing_or(handle, creation, *waiter);
}

/// Somebody else may be creating an actor of that name right now: whose it is, the head says, once the arguments are
/// there.
detail::HandlePtr ActorClients::existing_or(const detail::HandlePtr& own, const std::shared_ptr<Creation>& creation,
                                            exec::Waiter& waiter) {
  struct Listed {
    Runtime& runtime;
    Creation& creation;
    Listed(Runtime& runtime, Creation& creation, exec::Waiter& waiter) : runtime(runtime), creation(creation) {
      CoreLock lock(runtime);
      creation.waiter = &waiter;
    }
    ~Listed() {
      CoreLock lock(runtime);
      creation.waiter = nullptr;
    }
  } listed(runtime_, *creation, waiter);
  WaitScope scope(runtime_, waiter);
  for (;;) {
    exec::Deadline deadline = exec::kNever;  // arguments come, or fail, when they do: as in get
    {
      CoreLock lock(runtime_);
      scope.check();
      const bool dead = creation->client->state == ActorClient::State::kDead;
      if (creation->existing) return creation->existing;
      if (creation->reply || dead) return own;
      if (creation->asked) deadline = *creation->asked + kHeadTimeout;
      else if (runtime_.service().is_this_thread())
        throw InvalidArgumentError("get_if_exists waits for its arguments, which a callback cannot");
    }
    if (!scope.wait(deadline) && exec::Deadline::clock::now() >= deadline)
      throw GetTimeoutError("the head did not say whose actor '" + creation->spec.name + "' is");
  }
}

/// All arguments are there: asks the head. The arguments travel as one value: the encoded call and, behind it, each
/// dependency as a value of its own in the same lists.
void ActorClients::start_creation(const std::shared_ptr<Creation>& creation) {
  ActorClient& client = *creation->client;
  for (const auto& dependency : creation->dependencies)
    if (entry_of(dependency).state() == ObjectEntry::kFailed) {
      if (creation->waiter) creation->waiter->notify();
      return die(client, entry_of(dependency).error);
    }
  Outgoing hold(kHead);
  creation->spec.arguments = owner_.values().describe(creation->arguments, hold);
  for (const auto& dependency : creation->dependencies)
    creation->spec.dependencies.push_back(owner_.values().describe(entry_of(dependency).value, hold));
  if (wire::may_come_back(creation->spec)) {
    ValueCodec::Refs refs;
    owner_.values().add_refs(creation->arguments, hold, refs);
    for (const auto& dependency : creation->dependencies)
      owner_.values().add_refs(entry_of(dependency).value, hold, refs);
    creation->spec.refs = std::move(refs.ready);
  }
  // Buffers are pinned by the daemon when it passes the creation on. Refs and handles are held here until the actor was
  // constructed, whether anybody here still has its handle or not.
  auto keep = std::make_shared<Outgoing>(std::move(hold));
  client.keep_arguments = keep;
  if (!keep->objects.empty() || !keep->handles.empty()) untaken_[client.id()] = keep;
  creation->asked = runtime_.now();
  if (creation->waiter) creation->waiter->notify();  // from now on it waits for the head
  auto done = [this, creation](Result<wire::CreateActorReply> reply) {
    ActorClient& client = *creation->client;
    if (reply.ok()) creation->reply = *reply;
    if (reply.ok() && reply->existed) creation->existing = held_by_head(reply->handle);
    if (creation->spec.get_if_exists) name_answered();
    if (creation->waiter) creation->waiter->notify();
    if (!reply.ok() || reply->existed) untaken_.erase(client.id());
    if (!reply.ok()) return die(client, reply.error_ptr());
    if (client.state == ActorClient::State::kCreating) client.state = ActorClient::State::kLocating;
  };
  if (creation->spec.get_if_exists) ++names_asked_;
  runtime_.requests().send<wire::CreateActorReply>(kHead, wire::Method::kCreateActor, creation->spec, std::move(done));
  locate(client);
}

/// The head counts this process as a holder since it answered (CAC-4); here that is said to itself at once, for a drop
/// right after it must not cancel it out.
detail::HandlePtr ActorClients::held_by_head(const wire::HandleDesc& desc) {
  bool wait = false;
  detail::HandlePtr found = handle(desc, 0, wait);
  flush_counts();
  return found;
}

void ActorClients::name_answered() {
  if (--names_asked_ == 0) flush_counts();
}

void ActorClients::ask_name(wire::NamedActor name, const std::string& class_name, Found found) {
  if (name.name_space.empty()) name.name_space = runtime_.welcome().name_space;
  auto answered = [this, name = name.name, class_name, found = std::move(found)](Result<wire::NamedActorReply> reply) {
    detail::HandlePtr handle;
    if (reply.ok()) handle = held_by_head(reply->handle);
    name_answered();
    if (!reply.ok()) return found(reply.error_ptr());
    const std::string& is = client_of(handle).desc().class_name;
    if (is == class_name) return found(std::move(handle));
    found(make_error<InvalidArgumentError>(
        fmt::format("the actor named \"{}\" is a {}, not a {}", name, is, class_name)));
  };
  ++names_asked_;
  runtime_.requests().send<wire::NamedActorReply>(kHead, wire::Method::kGetNamedActor, name, std::move(answered));
}

Result<detail::HandlePtr> ActorClients::find(const wire::NamedActor& name, const std::string& class_name) {
  struct Search {
    std::optional<Result<detail::HandlePtr>> found;
    exec::Waiter* waiter = nullptr;
  };
  const auto search = std::make_shared<Search>();
  exec::Waiter waiter(runtime_);
  {
    CoreLock lock(runtime_);
    search->waiter = &waiter;
    ask_name(name, class_name, [search](Result<detail::HandlePtr> found) {
      search->found.emplace(std::move(found));
      if (search->waiter) search->waiter->notify();
    });
  }
  waiter.wait(exec::deadline_after(kHeadTimeout));
  CoreLock lock(runtime_);
  search->waiter = nullptr;
  if (!search->found)
    return make_error<GetTimeoutError>("the head did not say which actor is named '" + name.name + "'");
  return std::move(*search->found);
}

void ActorClients::kill(const detail::HandlePtr& handle, bool restart) {
  {
    CoreLock lock(runtime_);
    ActorClient& client = client_of(handle);
    if (client.state == ActorClient::State::kDead) return;
    flush_counts();  // a handle that this actor gave us must be counted before its own count goes
  }
  (void)runtime_.requests().call<wire::Empty>(kHead, wire::Method::kKillActor,
                                              wire::KillActor{client_of(handle).id(), restart}, kHeadTimeout);
}

}  // namespace troupe::worker
