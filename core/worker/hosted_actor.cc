#include "core/worker/hosted_actor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/exception.h"
#include "core/base/log.h"
#include "core/worker/core.h"
#include "core/worker/host.h"
#include "core/worker/waits.h"

namespace troupe::worker {

namespace {
ErrorPtr ended_error(const std::string& why) {
  ErrorRecord record;
  record.code = ErrorCode::kActorDied;
  record.outcome = Outcome::kNotExecuted;
  record.message = why;
  return Error::make(std::move(record));
}
}  // namespace

HostedActor::HostedActor(Host& host, wire::ConstructActor message)
    : host_(host), id_(message.spec.id), spec_(std::make_shared<const wire::ActorSpec>(std::move(message.spec))), restarts_(message.restarts) {
  if (message.checkpoint) extras().checkpoint = std::move(message.checkpoint);
  if (!message.gpu_ids.empty()) extras().gpu_ids = std::move(message.gpu_ids);
  default_group_.limit = std::max(1, spec_->threads) * std::max(1, spec_->max_concurrency);
  for (auto& [name, limit] : spec_->concurrency_groups) extras().groups[name].limit = limit;
  caller_key_ = host_.next_run() << 20 | 2;
}

HostedActor::HostedActor(Host& host, ActorId id, std::shared_ptr<const wire::ActorSpec> spec, IncomingPtr construction)
    : host_(host), id_(id), spec_(std::move(spec)), construction_(std::move(construction)), caller_key_(host.next_run() << 20 | 2) {
  default_group_.limit = std::max(1, spec_->max_concurrency);
}

const std::vector<int>& HostedActor::gpu_ids() const {
  static const std::vector<int> none;
  return extras_ ? extras_->gpu_ids : none;
}

HostedActor::~HostedActor() { join_threads(); }

void HostedActor::join_threads() {
  if (!extras_) return;
  for (Extras::Thread& one : extras_->threads) {
    if (one.fibers) one.fibers->stop();
    if (!one.thread.joinable()) continue;
    // Ended by its own last call: the thread still stands on this object's fibers. The worker ends next.
    if (one.thread.get_id() == std::this_thread::get_id()) host_.adopt(std::move(one.thread), std::move(one.fibers));
    else one.thread.join();
  }
}

// --------------------------------------------------------------------------------------------------------------- beginning

void HostedActor::start() {
  Core& core = host_.core();
  if (light() || core.outlet()) {
    post([this] { construct(); });
    return;
  }
  if (uses_fibers()) {
    exec::FiberThread::Options options{.stack_size = std::max<std::size_t>(core.welcome().stack_size, 64 << 10)};
    for (int i = 0; spec_->threads > 1 && i < spec_->threads; ++i) {
      extras().threads.push_back({std::make_unique<exec::FiberThread>(core, options), {}});
      extras().threads.back().thread = std::thread([&core, fibers = extras().threads.back().fibers.get()] {
        set_thread_core(&core);
        fibers->run();
      });
    }
  } else {
    for (int i = 1; i < spec_->threads; ++i) extras().threads.push_back({nullptr, std::thread([this] { host_.executor_loop(); })});
  }
  post([this] { construct(); });
}

void HostedActor::post(std::function<void()> work) {
  if (host_.core().outlet()) [[unlikely]] return host_.make_runnable(std::move(work));
  if (uses_fibers() && spec_->threads <= 1) return host_.main_fibers().post(std::move(work));
  if (uses_fibers()) return extras().threads[extras().next_thread++ % extras().threads.size()].fibers->post(std::move(work));
  host_.make_runnable(std::move(work));
}

/// Runs the constructor, and restore when there is a checkpoint. On one of the actor's threads, without the lock.
void HostedActor::construct() {
  Core& core = host_.core();
  if (core.is_cut_off()) return;
  CallContext context;
  context.core = &core;
  context.actor = this;
  context.attempt = restarts_;
  context.resources = spec_->resources;
  context.gpu_ids = gpu_ids();
  context.caller = caller_key_;
  context.function = detail::function_at(construction_ ? construction_->head.function : spec_->constructor);
  if (!context.function) context.name = spec_->class_name;
  {
    CoreLock lock(core);
    constructing_ = &context;
    if (killed_) interrupt(context, ended_error(extras().message));
  }
  CallContext* const outer = current_context();
  set_current_context(&context);
  ErrorPtr error;
  try {
    if (!context.function || context.function->kind != detail::FunctionKind::kConstructor) throw SerializationError("the actor's constructor is not in this program");
    operations_ = context.function->operations;
    std::vector<detail::Value> values;
    detail::Value state;
    if (construction_) {
      values.push_back(std::move(construction_->arguments));
    } else {
      CoreLock lock(core);
      values.push_back(core.transit().restore(spec_->arguments, 0));
      for (const auto& dependency : spec_->dependencies) values.push_back(core.transit().restore(dependency, 0));
      if (extras_ && extras_->checkpoint) state = core.transit().restore(extras_->checkpoint->state, 0);
    }
    for (const auto& value : values)
      if (Result<bool> here = core.transit().fetch_all(value, exec::kNever); !here.ok()) here.error().raise();
    std::vector<const detail::Value*> dependencies;
    for (std::size_t i = 1; i < values.size(); ++i) dependencies.push_back(&values[i]);
    detail::Invocation invocation;
    invocation.body = {values[0].data(), values[0].size()};
    invocation.attachments = values[0].attachments.get();
    invocation.dependencies = dependencies;
    context.function->invoke(invocation);
    instance_ = invocation.constructed;
    if (extras_ && extras_->checkpoint && operations_->restore) {
      if (Result<bool> here = core.transit().fetch_all(state, exec::kNever); !here.ok()) here.error().raise();
      operations_->restore(instance_, state);
    }
  } catch (...) {
    ErrorRecord record = describe_current_exception();
    if (record.code == ErrorCode::kUser) record.code = ErrorCode::kTask;
    if (record.context.function.empty()) {
      record.context.function = name_of_context(context);
      record.context.actor_id = to_string(id_);
      record.context.node = core.welcome().node_id;
      record.context.pid = ::getpid();
      record.context.attempt = restarts_;
    }
    error = Error::make(std::move(record));
  }
  set_current_context(outer);
  CoreLock lock(core);
  constructing_ = nullptr;
  constructed(std::move(error));
}

void HostedActor::constructed(ErrorPtr error) {
  Core& core = host_.core();
  if (error) {
    state_ = State::kEnded;
    if (!killed_) cause_ = DeathCause::kConstructorFailed;
    else error = ended_error(extras().message);  // whatever the interrupted constructor made of it
    report_end(error);
    if (construction_) host_.reply_error(*construction_, error);
    fail_queued(killed_ ? error->message() : "its constructor failed: " + error->message());
    return host_.actor_ended(*this);
  }
  if (extras_ && extras_->checkpoint) {
    extras().checkpoint_number = extras_->checkpoint->number;
    restore_keys();
    extras_->checkpoint.reset();
  }
  state_ = State::kAlive;
  if (spec_->checkpoint_every > Duration::zero()) extras().last_checkpoint = host_.core().now();
  if (construction_) {
    host_.reply_values(*construction_, {}, 0);
    construction_.reset();
  } else {
    core.courier().notice(kHead, wire::Method::kActorStarted, wire::ActorStarted{id_, restarts_, core.self(), ::getpid()});
  }
  if (killed_) return begin_end(cause_, extras().message);
  admit();
}

// ------------------------------------------------------------------------------------------------------------------- calling

std::size_t HostedActor::queued() {
  std::size_t n = stopping() ? 1 : 0;
  for_each_group([&](CallGroup& group) { n += group.queue.size(); });
  return n;
}

void HostedActor::arrived(IncomingPtr call) {
  if (state_ == State::kEnding || state_ == State::kEnded || killed_ || stopping()) return host_.reply_error(*call, ended_error("the actor has ended"));
  if (call->head.kind == CallKind::kStop) {
    extras().stop = std::move(call);
    return admit();
  }
  CallGroup* group = &default_group_;
  if (!call->group.empty()) {
    auto& groups = extras().groups;
    auto found = groups.find(call->group);
    if (found == groups.end())
      return host_.reply_error(*call, make_error<InvalidArgumentError>("the actor class " + spec_->class_name + " has no concurrency group '" + call->group + "'"));
    group = &found->second;
  }
  if (!call->key.empty() && answer_from_table(call)) return;
  call->admitted = group;
  group->queue.push_back(std::move(call));
  admit();
}

void HostedActor::admit() {
  if (state_ != State::kAlive || checkpointing_) return;
  for_each_group([&](CallGroup& group) { admit_from(group); });
  if (stopping() && open_ == 0 && queued() == 1) {
    host_.reply_values(*extras_->stop, {}, 0);
    return begin_end(DeathCause::kFinished, "the actor was stopped");
  }
  end_if_idle();
}

void HostedActor::admit_from(CallGroup& group) {
  while (group.open < group.limit && !group.queue.empty()) {
    IncomingPtr call = group.queue.pop_front();
    ++group.open;
    ++open_;
    begin(std::move(call));
  }
}

void HostedActor::begin(IncomingPtr call) {
  host_.link_admitted(*call);
  post([this, call = std::move(call)] { host_.run(call, this); });
}

void HostedActor::finished(IncomingCall& call, bool exit_asked) {
  --open_;
  if (call.admitted) --call.admitted->open;
  if (spec_->checkpoint_every > Duration::zero()) extras().dirty = true;
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
    if (!call) call = group.queue.take_if([&](const IncomingCall& one) { return one.source == source && one.head.call_id == call_id; });
  });
  if (!call && extras_)
    for (auto& [key, kept] : extras_->kept)
      for (auto at = kept.waiting.begin(); !call && at != kept.waiting.end(); ++at)
        if ((*at)->source == source && (*at)->head.call_id == call_id) {
          call = *at;
          kept.waiting.erase(at);
          host_.reply_error(*call, error);
          return true;
        }
  if (!call) return false;
  host_.reply_error(*call, error);
  remember(*call, nullptr);  // its key is free again: who asked with it meanwhile runs instead
  return true;
}

// ------------------------------------------------------------------------------------------------------------------- ending

void HostedActor::fail_queued(const std::string& why) {
  for_each_group([&](CallGroup& group) {
    while (!group.queue.empty()) host_.reply_error(*group.queue.pop_front(), ended_error(why));
  });
  if (extras_)
    for (auto& [key, kept] : extras_->kept)
      for (auto& call : std::exchange(kept.waiting, {})) host_.reply_error(*call, ended_error(why));
  if (stopping()) host_.reply_values(*std::exchange(extras_->stop, nullptr), {}, 0);
}

void HostedActor::end_when_idle() {
  leaving_ = true;
  if (state_ == State::kAlive) end_if_idle();
}

void HostedActor::kill(DeathCause cause, const std::string& message) {
  killed_ = true;
  cause_ = cause;
  extras().message = message;
  if (state_ == State::kAlive) return begin_end(cause, message);
  if (state_ != State::kConstructing) return;
  fail_queued(message);
  if (constructing_) interrupt(*constructing_, ended_error(message));
}

void HostedActor::begin_end(DeathCause cause, const std::string& message) {
  state_ = State::kEnding;
  cause_ = cause;
  extras().message = message;
  fail_queued(message);
  if (killed_) host_.interrupt_calls(*this, ended_error(message));
  end_if_idle();
}

void HostedActor::end_if_idle() {
  if (open_ > 0 || checkpointing_) return;
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
  Core& core = host_.core();
  CallContext context;
  context.core = &core;
  context.actor = this;
  context.caller = caller_key_;
  CallContext* const outer = current_context();
  set_current_context(&context);
  try {
    if (instance_) operations_->destroy(std::exchange(instance_, nullptr));
  } catch (...) {
    write_log(LogLevel::kError, "the destructor of actor {} threw: {}", spec_->class_name, describe_current_exception().message);
  }
  set_current_context(outer);
  CoreLock lock(core);
  report_end(nullptr);
  host_.actor_ended(*this);
}

void HostedActor::report_end(const ErrorPtr& error) {
  if (direct_) return host_.light_ended(*this);
  wire::ActorExited exited{id_, restarts_, host_.core().self(), cause_, error ? error->message() : extras().message, {}};
  if (error) exited.error = error->record();
  host_.core().courier().notice(kHead, wire::Method::kActorExited, exited);
}

}  // namespace troupe::worker
