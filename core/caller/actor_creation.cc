#include "core/caller/actor_creation.h"

#include <optional>

#include "core/runtime/runtime.h"
#include "core/runtime/waits.h"
#include "core/wire/kept.h"

namespace troupe::worker {

struct ActorCreation::Creation {
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
detail::HandlePtr ActorCreation::create_light(detail::OutgoingCall construction, const std::string& class_name) {
  wire::HandleDesc desc{{runtime_.self(), ++last_actor_}, {}, class_name, 0, -1, wire::kHandleLight, {}};
  const detail::Ptr<ActorClient> client = clients_.client(std::move(desc));
  client->construct_direct(std::move(construction));
  light_hosts_.place(client);
  return detail::HandlePtr(client.get());
}

detail::HandlePtr ActorCreation::create(detail::OutgoingCall construction, const ActorOptions* given,
                                        const std::string& class_name) {
  static const ActorOptions defaults;
  const ActorOptions& options = given ? *given : defaults;
  validate(options);
  if (is_plain_light(options) && construction.dependencies.empty()) {
    CoreLock lock(runtime_);
    return create_light(std::move(construction), class_name);
  }
  if (!options.get_if_exists) {
    CoreLock lock(runtime_);
    return detail::HandlePtr(begin(std::move(construction), options, class_name)->client.get());
  }
  Result<detail::HandlePtr> existing = lookup_.find({options.name, options.name_space}, class_name);
  if (existing.ok()) return *existing;
  if (existing.error().code() == ErrorCode::kInvalidArgument) existing.error().raise();  // a name of another class
  exec::Waiter waiter(runtime_);
  std::shared_ptr<Creation> creation;
  {
    CoreLock lock(runtime_);
    creation = begin(std::move(construction), options, class_name);
  }
  return existing_or_own(creation, waiter);
}

std::shared_ptr<ActorCreation::Creation> ActorCreation::begin(detail::OutgoingCall construction,
                                                              const ActorOptions& options,
                                                              const std::string& class_name) {
  auto creation = std::make_shared<Creation>();
  wire::ActorSpec& spec = creation->spec;
  spec = spec_of(options);
  spec.class_name = class_name;
  spec.constructor = construction.function->index;
  spec.id = {runtime_.self(), ++last_actor_};
  spec.job = runtime_.welcome().job;
  spec.creator = runtime_.self();
  if (spec.name_space.empty()) spec.name_space = runtime_.welcome().name_space;
  creation->client = clients_.client(wire::handle_of(spec));
  creation->client->creating();  // the creation is the first count
  creation->arguments = std::move(construction.arguments);
  creation->dependencies = std::move(construction.dependencies);
  for (const auto& dependency : creation->dependencies) {
    ObjectEntry& entry = entry_of(dependency);
    if (entry.state() != ObjectEntry::kPending) continue;
    ++creation->unresolved;
    owner_.objects().want(entry);
    entry.rare().callbacks.push_back([this, creation] {
      CoreLock lock(runtime_);
      if (--creation->unresolved > 0) return;
      --held_back_;
      start(creation);
    });
  }
  if (creation->unresolved == 0) {
    start(creation);
  } else {
    ++held_back_;
    creation->client->hold_back();
    clients_.counts().begun(spec.id);
  }
  return creation;
}

/// Somebody else may be creating an actor of that name right now: whose it is, the head says, once the arguments are
/// there.
detail::HandlePtr ActorCreation::existing_or_own(const std::shared_ptr<Creation>& creation, exec::Waiter& waiter) {
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
      if (creation->existing) return creation->existing;
      if (creation->reply || creation->client->life().dead()) return detail::HandlePtr(creation->client.get());
      if (creation->asked) deadline = *creation->asked + kActorAnswerTimeout;
      else if (runtime_.service().is_this_thread())
        throw InvalidArgumentError("get_if_exists waits for its arguments, which a callback cannot");
    }
    if (!scope.wait(deadline) && exec::Deadline::clock::now() >= deadline)
      throw GetTimeoutError("the head did not say whose actor '" + creation->spec.name + "' is");
  }
}

/// All arguments are there: asks the head.
void ActorCreation::start(const std::shared_ptr<Creation>& creation) {
  ActorClient& client = *creation->client;
  if (client.life().dead()) return;  // killed meanwhile (CAC-10)
  for (const auto& dependency : creation->dependencies)
    if (entry_of(dependency).state() == ObjectEntry::kFailed) {
      if (creation->waiter) creation->waiter->notify();
      return clients_.give_up(client, DeathCause::kConstructorFailed, entry_of(dependency).error);
    }
  // Buffers are pinned by the daemon when it passes the creation on; refs and handles are held here (UntakenArguments).
  const std::shared_ptr<Outgoing> named = describe_arguments(*creation);
  client.pin_arguments(named, wire::may_come_back(creation->spec));
  if (!named->objects.empty() || !named->handles.empty()) untaken_.keep(client.id(), named);
  creation->asked = runtime_.now();
  if (creation->waiter) creation->waiter->notify();  // from now on it waits for the head
  if (!creation->spec.name.empty()) clients_.counts().flush();  // CAC-9
  if (creation->spec.get_if_exists) clients_.counts().name_asked();
  runtime_.requests().send<wire::CreateActorReply>(
      kHead, wire::Method::kCreateActor, creation->spec,
      [this, creation](Result<wire::CreateActorReply> reply) { answered(*creation, reply); });
  client.locate();
  client.go_ahead();
}

/// The arguments travel as one value: the encoded call and, behind it, each dependency as a value of its own in the
/// same lists.
std::shared_ptr<Outgoing> ActorCreation::describe_arguments(Creation& creation) {
  auto named = std::make_shared<Outgoing>(kHead);
  creation.spec.arguments = owner_.values().describe(creation.arguments, *named);
  for (const auto& dependency : creation.dependencies)
    creation.spec.dependencies.push_back(owner_.values().describe(entry_of(dependency).value, *named));
  if (!wire::may_come_back(creation.spec)) return named;
  ValueCodec::Refs refs;
  owner_.values().add_refs(creation.arguments, *named, refs);
  for (const auto& dependency : creation.dependencies)
    owner_.values().add_refs(entry_of(dependency).value, *named, refs);
  creation.spec.refs = std::move(refs.ready);
  return named;
}

void ActorCreation::answered(Creation& creation, const Result<wire::CreateActorReply>& reply) {
  ActorClient& client = *creation.client;
  if (reply.ok()) creation.reply = *reply;
  if (reply.ok() && reply->existed) creation.existing = clients_.held_by_head(reply->handle);
  if (creation.spec.get_if_exists) clients_.counts().name_answered();
  if (creation.waiter) creation.waiter->notify();
  if (!reply.ok() || reply->existed) untaken_.taken(client.id());
  if (!reply.ok()) return client.die(reply.error_ptr());
  client.created();
}

}  // namespace troupe::worker
