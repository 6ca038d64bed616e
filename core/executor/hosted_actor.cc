#include "core/executor/hosted_actor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "core/base/exception.h"
#include "core/base/log.h"
#include "core/executor/executors.h"
#include "core/executor/host.h"
#include "core/owner/owner.h"
#include "core/runtime/runtime.h"
#include "core/runtime/waits.h"
#include "core/wire/kept.h"

namespace troupe::worker {

namespace {
ErrorPtr ended_error(const std::string& why, Outcome outcome = Outcome::kNotExecuted) {
  ErrorRecord record;
  record.code = ErrorCode::kActorDied;
  record.outcome = outcome;
  record.message = why;
  return Error::make(std::move(record));
}
}  // namespace

HostedActor::HostedActor(Host& host, wire::ConstructActor message)
    : host_(host),
      id_(message.spec.id),
      spec_(std::make_shared<const wire::ActorSpec>(std::move(message.spec))),
      restarts_(message.restarts) {
  if (message.checkpoint) checkpoints().set_last(std::move(message.checkpoint));
  if (!message.gpu_ids.empty()) extras().gpu_ids = std::move(message.gpu_ids);
  const std::int64_t limit = std::int64_t(std::max(1, spec_->threads)) * std::max(1, spec_->max_concurrency);
  default_group_.limit = int(std::min<std::int64_t>(limit, std::numeric_limits<int>::max()));
  for (auto& [name, limit] : spec_->concurrency_groups) extras().groups[name].limit = limit;
  caller_key_ = host_.next_run() << 20 | 2;
}

HostedActor::HostedActor(Host& host, ActorId id, std::shared_ptr<const wire::ActorSpec> spec, IncomingPtr construction)
    : host_(host),
      id_(id),
      spec_(std::move(spec)),
      construction_(std::move(construction)),
      caller_key_(host.next_run() << 20 | 2) {
  default_group_.limit = std::max(1, spec_->max_concurrency);
}

const std::vector<int>& HostedActor::gpu_ids() const {
  static const std::vector<int> none;
  return extras_ ? extras_->gpu_ids : none;
}

HostedActor::~HostedActor() {
  if (!light() && spec_->threads > 1) host_.executors().join_threads(this);
}

KeyedReplies& HostedActor::keyed() {
  if (!extras().keyed) extras().keyed = std::make_unique<KeyedReplies>(host_.replies());
  return *extras_->keyed;
}

/// HA-5
void HostedActor::watch_keys() {
  if (!extras().keys_watched) forget_old_keys();
}

void HostedActor::forget_old_keys() {
  const exec::Deadline next = keyed().expire(host_.runtime().now());
  extras().keys_watched = next != exec::kNever;
  if (next == exec::kNever) return;
  host_.runtime().add_timer(next, [&host = host_, id = id_] {
    if (HostedActor* actor = host.hosted(id)) actor->forget_old_keys();
  });
}

Checkpoints& HostedActor::checkpoints() {
  if (!extras().checkpoints) extras().checkpoints = std::make_unique<Checkpoints>(host_, *this);
  return *extras_->checkpoints;
}

// ----------------------------------------------------------------------------------------------------------- beginning

void HostedActor::start() {
  if (const wire::Checkpoint* last = last_checkpoint(); last && !last->keys.empty()) {
    keyed().restore(last->keys, host_.runtime().now());  // before any call can come (HA-3)
    watch_keys();
  }
  host_.executors().start_threads(*this);
  post([this] { construct(); });
}

void HostedActor::post(std::function<void()> work) { host_.executors().post(*this, std::move(work)); }

/// Runs the constructor, and restore when there is a checkpoint. On one of the actor's threads, without the lock.
void HostedActor::construct() {
  Runtime& runtime = host_.runtime();
  if (runtime.is_cut_off()) return;
  CallContext context;
  context.runtime = &runtime;
  context.actor = this;
  context.attempt = restarts_;
  context.resources = spec_->resources;
  context.caller = caller_key_;
  context.function = detail::function_at(construction_ ? construction_->head.function : spec_->constructor);
  if (!context.function) context.name = spec_->class_name;
  {
    CoreLock lock(runtime);
    context.gpu_ids = gpu_ids();
    constructing_ = &context;
    if (killed_) interrupt(context, ended_error(extras().message));
  }
  CallContext* const outer = current_context();
  set_current_context(&context);
  ErrorPtr error;
  try {
    if (!context.function || context.function->kind != detail::FunctionKind::kConstructor)
      throw SerializationError("the actor's constructor is not in this program");
    operations_ = context.function->operations;
    std::vector<detail::Value> values;
    detail::Value state;
    bool restores = false;
    if (construction_) {
      values.push_back(std::move(construction_->arguments));
    } else {
      CoreLock lock(runtime);
      ValueCodec& codec = host_.owner().values();
      // In its first life the creator holds what the arguments name until it is counted here; later, or without him,
      // refs are read from their copies (KP-4).
      const bool given = restarts_ == 0 && !runtime.frames().is_dead(spec_->creator);
      ValueCodec::Copies copies;
      if (!given) copies = codec.copies_of(spec_->refs);
      Arrival arrival;
      if (given && wire::creator_holds(*spec_))
        arrival = host_.owner().holds().begin(spec_->creator, arguments_taken());
      values.push_back(codec.restore(spec_->arguments, copies, arrival.number));
      for (const auto& dependency : spec_->dependencies)
        values.push_back(codec.restore(dependency, copies, arrival.number));
      host_.owner().holds().end(arrival);
      if (const wire::Checkpoint* last = last_checkpoint()) {
        state = codec.restore(last->state, codec.copies_of(last->refs));
        restores = true;
      }
    }
    for (const auto& value : values)
      if (Result<bool> here = host_.owner().buffers().fetch_all(value, exec::kNever); !here.ok()) here.error().raise();
    std::vector<const detail::Value*> dependencies;
    for (std::size_t i = 1; i < values.size(); ++i) dependencies.push_back(&values[i]);
    detail::Invocation invocation;
    invocation.body = {values[0].data(), values[0].size()};
    invocation.attachments = values[0].attachments.get();
    invocation.dependencies = dependencies;
    context.function->invoke(invocation);
    instance_ = invocation.constructed;
    if (restores && operations_->restore) {
      if (Result<bool> here = host_.owner().buffers().fetch_all(state, exec::kNever); !here.ok()) here.error().raise();
      operations_->restore(instance_, state);
    }
  } catch (...) {
    ErrorRecord record = describe_current_exception();
    if (record.code == ErrorCode::kUser) record.code = ErrorCode::kTask;
    if (record.context.function.empty()) {
      record.context.function = name_of_context(context);
      record.context.actor_id = to_string(id_);
      record.context.node = runtime.welcome().node_id;
      record.context.pid = ::getpid();
      record.context.attempt = restarts_;
    }
    error = Error::make(std::move(record));
  }
  set_current_context(outer);
  CoreLock lock(runtime);
  constructing_ = nullptr;
  constructed(std::move(error));
}

/// Tells the creator that what it holds for the constructor is counted here.
std::function<void()> HostedActor::arguments_taken() {
  return [&frames = host_.runtime().frames(), creator = spec_->creator, id = id_] {
    frames.notice(creator, wire::Method::kArgumentsTaken, wire::ResolveActor{id});
  };
}

void HostedActor::constructed(ErrorPtr error) {
  Runtime& runtime = host_.runtime();
  if (error) {
    state_ = State::kEnded;
    if (!killed_) cause_ = DeathCause::kConstructorFailed;
    else error = ended_error(extras().message);  // whatever the interrupted constructor made of it
    report_end(error);
    if (construction_) host_.replies().error(*construction_, error);
    fail_queued(error);
    return host_.actor_ended(*this);
  }
  state_ = State::kAlive;
  if (last_checkpoint() || spec_->checkpoint_every > Duration::zero()) checkpoints().begin(runtime.now());
  if (construction_) {
    host_.replies().values(*construction_, {});
    construction_.reset();
  } else {
    runtime.frames().notice(kHead, wire::Method::kActorStarted,
                            wire::ActorStarted{id_, restarts_, runtime.self(), ::getpid()});
  }
  if (killed_) return begin_end(cause_, extras().message);
  admit();
}

// ------------------------------------------------------------------------------------------------------------- calling

std::size_t HostedActor::queued() {
  std::size_t n = stopping() ? 1 : 0;
  for_each_group([&](CallGroup& group) { n += group.queue.size(); });
  return n;
}

void HostedActor::arrived(IncomingPtr call) {
  if (state_ == State::kEnding || state_ == State::kEnded || killed_ || stopping())
    return host_.replies().not_begun(*call, ended_error("the actor has ended"));
  if (call->head.kind == CallKind::kStop) {
    extras().stop = std::move(call);
    return admit();
  }
  CallGroup* group = &default_group_;
  if (!call->group.empty()) {
    auto& groups = extras().groups;
    auto found = groups.find(call->group);
    if (found == groups.end())
      return host_.replies().error(*call,
                                   make_error<InvalidArgumentError>("the actor class " + spec_->class_name +
                                                                    " has no concurrency group '" + call->group + "'"));
    group = &found->second;
  }
  if (!call->key.empty()) {
    if (keyed().answer(call, host_.runtime().now())) return;
  }
  call->admitted = group;
  group->queue.push_back(std::move(call));
  admit();
}

void HostedActor::admit() {
  if (state_ != State::kAlive || calls_held()) return;
  for_each_group([&](CallGroup& group) { admit_from(group); });
  if (stopping() && open_ == 0 && queued() == 1) {
    host_.replies().values(*extras_->stop, {});
    return begin_end(DeathCause::kFinished, "the actor was stopped");
  }
  end_if_idle();
}

void HostedActor::admit_from(CallGroup& group) {
  while (group.open < group.limit && !group.queue.empty()) {
    IncomingPtr call = host_.any_held() ? group.queue.take_if([this](const IncomingCall& one) {
      return !host_.is_held(one.source);
    }) : group.queue.pop_front();
    if (!call) return;
    ++group.open;
    ++open_;
    begin(std::move(call));
  }
}

void HostedActor::begin(IncomingPtr call) {
  host_.queue_admitted(*call);
  post([this, call = std::move(call)] { host_.executors().run(call, this); });
}

void HostedActor::finished(IncomingCall& call, bool exit_asked) {
  --open_;
  if (call.admitted) --call.admitted->open;
  if (spec_->checkpoint_every > Duration::zero()) checkpoints().note_change();
  if (exit_asked && state_ == State::kAlive) {
    leaving_ = true;
    begin_end(DeathCause::kFinished, "the actor left by exit_actor");
    return;
  }
  if (state_ == State::kEnding) return end_if_idle();
  maybe_checkpoint();
  admit();
}

bool HostedActor::drop_queued(ProcessId source, std::uint64_t call_id, const ErrorPtr& error) {
  IncomingPtr call;
  for_each_group([&](CallGroup& group) {
    if (!call)
      call = group.queue.take_if(
          [&](const IncomingCall& one) { return one.source == source && one.head.call_id == call_id; });
  });
  if (!call && extras_ && extras_->keyed)
    if (IncomingPtr asked = extras_->keyed->take_waiting(source, call_id)) {
      host_.replies().error(*asked, error);
      return true;
    }
  if (!call) return false;
  host_.replies().error(*call, error);
  remember(*call, nullptr);  // its key is free again: who asked with it meanwhile runs instead
  return true;
}

// -------------------------------------------------------------------------------------------------------------- ending

void HostedActor::fail_queued(const ErrorPtr& error) {
  for_each_group([&](CallGroup& group) {
    while (!group.queue.empty()) host_.replies().not_begun(*group.queue.pop_front(), error);
  });
  if (extras_ && extras_->keyed)
    for (auto& call : extras_->keyed->take_all_waiting()) host_.replies().not_begun(*call, error);
  if (stopping()) host_.replies().values(*std::exchange(extras_->stop, nullptr), {});
}

void HostedActor::end_when_idle() {
  leaving_ = true;
  if (state_ == State::kAlive) end_if_idle();
}

void HostedActor::kill(DeathCause cause, const std::string& message) {
  const bool again = std::exchange(killed_, true);  // the head says it once more to a host that it heard of late
  cause_ = cause;
  extras().message = message;
  if (state_ == State::kAlive) return begin_end(cause, message);
  // It left by itself: what still runs may wait for good.
  if (state_ == State::kEnding && !again) return interrupt_calls();
  if (state_ != State::kConstructing) return;
  fail_queued(ended_error(message));
  if (constructing_) interrupt(*constructing_, ended_error(message));
}

void HostedActor::end_unbegun(DeathCause cause, const std::string& message) {
  state_ = State::kEnded;
  cause_ = cause;
  extras().message = message;
  report_end(nullptr);
}

void HostedActor::interrupt_calls() {
  const std::string& why = extras().message;
  host_.interrupt_calls(*this, ended_error(why), ended_error(why, Outcome::kUnknown));
}

void HostedActor::begin_end(DeathCause cause, const std::string& message) {
  state_ = State::kEnding;
  cause_ = cause;
  extras().message = message;
  fail_queued(ended_error(message));
  if (killed_) interrupt_calls();
  end_if_idle();
}

void HostedActor::end_if_idle() {
  if (open_ > 0 || checkpointing()) return;
  if (state_ == State::kAlive && leaving_ && queued() == 0) {
    cause_ = DeathCause::kFinished;
    extras().message = "no handle was left";
    state_ = State::kEnding;
  }
  if (state_ != State::kEnding) return;
  state_ = State::kEnded;
  post([this] { destroy_and_report(); });
}

/// Runs the destructor on one of the actor's threads.
void HostedActor::destroy_and_report() {
  Runtime& runtime = host_.runtime();
  CallContext context;
  context.runtime = &runtime;
  context.actor = this;
  context.caller = caller_key_;
  CallContext* const outer = current_context();
  set_current_context(&context);
  try {
    if (instance_) operations_->destroy(std::exchange(instance_, nullptr));
  } catch (...) {
    write_log(LogLevel::kError, "the destructor of actor {} threw: {}", spec_->class_name,
              describe_current_exception().message);
  }
  set_current_context(outer);
  CoreLock lock(runtime);
  report_end(nullptr);
  host_.actor_ended(*this);
}

void HostedActor::report_end(const ErrorPtr& error) {
  if (direct_ && cause_ != DeathCause::kConstructorFailed) return host_.light_report().ended(id_);
  if (direct_) host_.light_report().send();  // that it began; how it ended is told for itself
  wire::ActorExited exited{id_, restarts_, host_.runtime().self(), cause_, error ? error->message() : extras().message,
                           {}};
  if (error) exited.error = error->record();
  host_.runtime().frames().notice(kHead, wire::Method::kActorExited, exited);
}

// ------------------------------------------------------------------------------------------------ keys and checkpoints

void HostedActor::remember(IncomingCall& call, std::vector<detail::Value>* results) {
  if (call.key.empty() || !extras_ || !extras_->keyed) return;
  if (results) {
    extras_->keyed->executed(call, *results, host_.runtime().now());
    return watch_keys();
  }
  for (auto& next : extras_->keyed->failed(call)) arrived(std::move(next));
}

std::vector<std::byte> HostedActor::encode_keys() { return keyed().encode(); }

void HostedActor::maybe_checkpoint() {
  if (spec_->checkpoint_every <= Duration::zero() || !operations_ || !operations_->checkpoint) return;
  checkpoints().maybe_take(open_ == 0);
}

void HostedActor::checkpoint_due() {
  if (state_ == State::kAlive) maybe_checkpoint();
}

void HostedActor::checkpoint_done() {
  if (state_ == State::kEnding) end_if_idle();
  else admit();
}

}  // namespace troupe::worker
