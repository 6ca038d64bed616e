#include "core/caller/actor_client.h"

#include <fmt/format.h>

#include "core/caller/streams.h"
#include "core/runtime/context.h"
#include "core/runtime/runtime.h"

namespace troupe::worker {

namespace {
constexpr auto kDeathNoticeGrace = std::chrono::seconds(5);
constexpr int kLightLookups = 100;
constexpr auto kLightLookupDelay = std::chrono::milliseconds(10);

/// What a call needs of its options and its stream; null: defaults.
std::shared_ptr<const CallInfo> info_of(const CallOptions* options, const StreamState* stream) {
  if (!options && !stream) return nullptr;
  auto info = std::make_shared<CallInfo>();
  if (options) {
    info->name = options->name;
    info->key = options->idempotency_key;
    info->group = options->concurrency_group;
    info->timeout = options->timeout;
  }
  if (stream) info->stream_buffer = stream->buffer();
  return info;
}

ErrorPtr error_about(CallTable& calls, const PendingCall& call, ErrorCode code, const char* what) {
  ErrorRecord record;
  record.code = code;
  record.context = calls.context_of(call);
  record.message = "the call " + calls.name_of(call) + what;
  return Error::make(std::move(record));
}

ErrorPtr failed_argument(const PendingCall& call) {
  for (const auto& dependency : call.dependencies)
    if (ObjectEntry& entry = entry_of(dependency); entry.state() == ObjectEntry::kFailed) return entry.error;
  return nullptr;
}
}  // namespace

// -------------------------------------------------------------------------------------------------------- its creation

void ActorClient::creating() {
  life_.creating();
  held_.counted_by_creation();
}

void ActorClient::go_ahead() {
  const auto before = std::exchange(before_head_, nullptr);
  if (!before) return;
  for (const auto& ref : before->monitors) ask_for_death(ref);
}

void ActorClient::give_up(DeathCause cause, const ErrorPtr& why) {
  if (!before_head_) hold_back();
  const ActorDeath death{.cause = cause, .message = why->message(), .node = {}};
  before_head_->never_made = death;
  for (const auto& ref : std::exchange(before_head_->monitors, {})) tell_death(ref, death);
  die(why);
}

void ActorClient::construct_direct(detail::OutgoingCall construction) {
  life_.make_direct();
  held_.counted_by_creation();
  subscribed_ = true;
  construction.returns = 0;
  PendingCall* call = table().make(std::move(construction), CallKind::kConstructLight, nullptr);
  call->actor = detail::HandlePtr(this);
  ++open_;
  calls_.queue(*call);
}

void ActorClient::placed(ProcessId host) {
  desc_.host = host;
  life_.placed(host);
  flush();
}

void ActorClient::found_direct(ProcessId host) {
  life_.make_direct();
  life_.placed(host);
  life_.constructed();
  subscribed_ = true;
  if (runtime().frames().is_dead(host)) die(make_error<ActorDiedError>("its process died"));
}

// ------------------------------------------------------------------------------------------------------------- calling

void ActorClient::submit(detail::OutgoingCall outgoing, CallKind kind, const CallOptions* options,
                         detail::ObjectPtr* returns, StreamState* stream) {
  const bool counts = kind != CallKind::kStop;  // an actor whose calls do not end can be stopped all the same
  if (counts && desc_.max_pending_calls >= 0 && open_ >= std::size_t(desc_.max_pending_calls))
    throw PendingCallsLimitError(fmt::format("actor {} ({}) has {} open calls of this process, its limit",
                                             to_string(id()), desc_.class_name, open_));
  PendingCall& call = make_call(std::move(outgoing), kind, options, returns, stream);
  if (runtime().shutting_down()) return table().fail(call, runtime().shutdown_reason());
  if (ErrorPtr failed = table().resolve(call)) return table().fail(call, failed);
  const bool behind = !out_of_order() && calls_.waits(call.caller);
  if (call.unresolved > 0 || behind) return calls_.wait(call);
  route(call);
}

PendingCall& ActorClient::make_call(detail::OutgoingCall outgoing, CallKind kind, const CallOptions* options,
                                    detail::ObjectPtr* returns, StreamState* stream) {
  PendingCall& call = *table().make(std::move(outgoing), kind, returns);
  call.actor = detail::HandlePtr(this);  // CAC-3
  ++open_;
  const CallContext* context = current_context();
  call.caller = context ? context->caller : thread_caller();
  call.info = info_of(options, stream);
  call.retries_left = options && options->max_retries != -2 ? options->max_retries : desc_.max_task_retries;
  if (stream) {
    call.stream = stream;
    stream->call_id = call.id;
  }
  if (options && options->timeout != kForever) start_deadline(call, options->timeout);
  return call;
}

void ActorClient::start_deadline(PendingCall& call, Duration timeout) {
  CallTable& calls = table();
  call.timer = runtime().add_timer(runtime().deadline_after(timeout), [&calls, id = call.id] {
    PendingCall* late = calls.find(id);
    if (!late) return;
    late->timer = 0;
    client_of(late->actor).cancel(
        *late, {}, error_about(calls, *late, ErrorCode::kDeadlineExceeded, " did not end within its timeout"));
  });
}

void ActorClient::arguments_ready(PendingCall& call) {
  const std::uint64_t caller = call.caller;
  if (ErrorPtr failed = failed_argument(call)) {
    const detail::Ptr<ActorClient> keep(this);
    calls_.stop_waiting(call);
    table().fail(call, failed);
    return flush_caller(caller);
  }
  if (out_of_order()) {
    calls_.stop_waiting(call);
    return route(call);
  }
  flush_caller(caller);
}

void ActorClient::flush_caller(std::uint64_t caller) {
  while (PendingCall* call = calls_.next_of(caller)) route(*call);
}

void ActorClient::route(PendingCall& call) {
  if (life_.dead()) return calls_.refuse(call, end_by(life_.death()));
  calls_.queue(call);
  flush();
}

void ActorClient::flush() {
  if (life_.reachable()) calls_.send_all(life_.process());
  else if (life_.state() == ActorLife::State::kLocating) locate();
}

void ActorClient::on_reply(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source) {
  const detail::Ptr<ActorClient> keep(this);
  if (comes_back(call, head)) calls_.came_back(call);
  else take_reply(call, head, in, source);
  old_light_settled();
}

/// CAC-6
bool ActorClient::comes_back(const PendingCall& call, const ReplyHead& head) const {
  if (head.status != ReplyStatus::kError || head.index != kNotBegun || call.cancelled) return false;
  return light() && !life_.direct() && !life_.dead();
}

void ActorClient::take_reply(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source) {
  calls_.answered(call);
  if (call.cancelled) {
    owner().values().discard(head, in, source);
    return table().forget(call);
  }
  const bool construction = call.kind == CallKind::kConstructLight;
  if (head.status == ReplyStatus::kError) {
    Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(in.rest());
    if (record.ok() && record->outcome == Outcome::kNotExecuted && call.attempt > 0)
      record->outcome = Outcome::kUnknown;  // CAC-5: this attempt was not
    const ErrorPtr error = record.ok() ? Error::make(*record) : record.error_ptr();
    const bool never_was = life_.dead() && !life_.ever_alive();  // what was sent behind its construction fails like it
    if (head.index == kNotBegun && never_was) calls_.refuse(call, end_by(life_.death()));
    else table().fail(call, error);
    if (construction) die(error);
    return;
  }
  if (construction) {
    life_.constructed();
    is_constructed();
  }
  table().succeed(call, head, in, source);
}

void ActorClient::cancel(PendingCall& call, const CancelOptions& options, ErrorPtr error) {
  if (call.cancelled) return;
  const std::uint64_t why = error && error->code() == ErrorCode::kDeadlineExceeded ? kCancelDeadline : 0;
  if (!error) error = error_about(table(), call, ErrorCode::kCancelled, " was cancelled");
  const detail::Ptr<ActorClient> keep(this);
  switch (call.state) {
    case PendingCall::State::kWaiting: {
      const std::uint64_t caller = call.caller;
      calls_.stop_waiting(call);
      table().fail(call, error);
      return flush_caller(caller);
    }
    case PendingCall::State::kQueued:
      calls_.unqueue(call);
      return table().fail(call, error);
    case PendingCall::State::kSent:
      table().fail_results(call, error);
      call.cancelled = true;
      runtime().frames().control(call.target, Control::kCancel, call.id,
                                 why | (options.recursive ? kCancelRecursive : 0));
      return;
    default: table().fail(call, error);
  }
}

detail::ObjectPtr ActorClient::ready() {
  ObjectEntry* entry = owner().objects().make_owned();
  const detail::ObjectPtr ref = detail::ObjectPtr::adopt(entry);
  if (life_.dead()) owner().objects().fail(*entry, life_.death());
  else if (life_.ever_alive()) owner().objects().complete(*entry, {});
  else {
    ready_refs_.push_back(ObjectEntryPtr(entry));
    if (life_.state() == ActorLife::State::kLocating) locate();
  }
  return ref;
}

void ActorClient::is_constructed() {
  if (!kept_for_restarts_) keep_arguments_.reset();
  for (auto& entry : std::exchange(ready_refs_, {})) owner().objects().complete(*entry, {});
}

detail::ObjectPtr ActorClient::monitor() {
  const detail::ObjectPtr ref = detail::ObjectPtr::adopt(owner().objects().make_owned());
  if (before_head_ && before_head_->never_made) tell_death(ref, *before_head_->never_made);
  else if (before_head_) before_head_->monitors.push_back(ref);
  else ask_for_death(ref);
  return ref;
}

namespace {
void complete_with(ObjectTable& objects, const detail::ObjectPtr& ref, const ActorDeath& death) {
  detail::Value value;
  const std::vector<std::byte> bytes = wire::encode_message(death);
  value.body = detail::Bytes(bytes.data(), bytes.size());
  objects.complete(entry_of(ref), std::move(value));
}
}  // namespace

void ActorClient::tell_death(const detail::ObjectPtr& ref, const ActorDeath& death) {
  complete_with(owner().objects(), ref, death);
}

void ActorClient::ask_for_death(const detail::ObjectPtr& ref) {
  auto died = [&objects = owner().objects(), ref, &home = home_, id = id()](Result<ActorDeath> death) {
    if (!death.ok()) return objects.fail(entry_of(ref), death.error_ptr());
    const bool was_alive = death->cause != DeathCause::kConstructorFailed;  // else its construction answers with why
    if (const detail::Ptr<ActorClient> client = home.find(id); client && was_alive) client->heard_dead(death->message);
    complete_with(objects, ref, *death);
  };
  runtime().requests().send<ActorDeath>(kHead, wire::Method::kMonitorActor, wire::ResolveActor{id(), home()},
                                       std::move(died));
}

// ------------------------------------------------------------------------------------------------------------ its life

void ActorClient::locate() {
  if (std::exchange(subscribed_, true)) return;
  auto answered = [&home = home_, id = id()](Result<wire::ActorLocation> word) {
    const detail::Ptr<ActorClient> client = home.find(id);
    if (!client) return;
    if (word.ok()) client->moved(*word);
    else client->not_located(word.error_ptr());
  };
  runtime().requests().send<wire::ActorLocation>(kHead, wire::Method::kResolveActor, wire::ResolveActor{id()},
                                                 std::move(answered));
}

void ActorClient::not_located(const ErrorPtr& error) {
  if (light() && error->code() == ErrorCode::kNotFound && lookups_++ < kLightLookups) {
    subscribed_ = false;  // made a moment ago, and its host has not told the head yet
    runtime().add_timer(runtime().deadline_after(kLightLookupDelay),
                        [client = detail::Ptr<ActorClient>(this)] { client->locate(); });
    return;
  }
  if (!life_.dead()) die(error);
}

void ActorClient::moved(const wire::ActorLocation& word) {
  if (life_.dead()) return;
  const FrameRouter& frames = runtime().frames();
  const ActorLife::Known known{.answers_due = calls_.answers_due(),
                               .old_is_dead = frames.is_dead(life_.process()),
                               .new_is_dead = frames.is_dead(word.process),
                               .light = light()};
  if (life_.must_wait(word, known)) await_death();
  switch (life_.heard(word, known)) {
    case ActorLife::Next::kNothing: return;
    case ActorLife::Next::kResend: resend_or_fail(); break;
    case ActorLife::Next::kFlush: break;
    case ActorLife::Next::kDie:
      return die(word.error ? life_.last_death() : make_error<ActorDiedError>("the actor is dead"));
  }
  if (life_.state() != ActorLife::State::kAlive) return;
  is_constructed();
  flush();
}

/// What the old process had begun is known only with its death notice, or with a light actor's last answer; neither
/// must be long in coming. (CAC-7)
void ActorClient::await_death() {
  auto late = [&home = home_, id = id(), process = life_.process()] {
    const detail::Ptr<ActorClient> client = home.find(id);
    if (!client || client->life_.process() != process || !client->life_.stop_waiting()) return;
    client->calls_.suspect(net::BegunCalls::all());
    client->old_process_settled();
  };
  runtime().add_timer(runtime().deadline_after(kDeathNoticeGrace), std::move(late));
}

/// A method that is killed may run on for as long as it likes: whoever waits for it waits no longer than for a process
/// that was killed. (CAC-11)
void ActorClient::await_last_answers() {
  auto late = [&home = home_, id = id()] {
    const detail::Ptr<ActorClient> client = home.find(id);
    if (!client || !client->life_.dead()) return;
    client->calls_.suspect(net::BegunCalls::all());
    client->calls_.fail_sent(client->end_by(client->life_.death()));
  };
  runtime().add_timer(runtime().deadline_after(kDeathNoticeGrace), std::move(late));
}

/// What the old process had begun is known now: the head's word, which came first, is followed.
void ActorClient::old_process_settled() {
  life_.follow(runtime().frames().is_dead(life_.next_process()));
  resend_or_fail();
}

/// A light actor's host answers each call that it was sent, and need not die: with the last answer all is known.
void ActorClient::old_light_settled() {
  if (light() && !calls_.answers_due() && life_.stop_waiting()) old_process_settled();
}

/// The head has decided that the actor goes on, unless it is dead.
void ActorClient::resend_or_fail() {
  if (life_.dead()) return die(life_.death());
  calls_.resend(end_by(life_.last_death()));
  flush();
}

/// One that is dead already gets no more replies; a light actor that was made directly has no second life.
void ActorClient::process_died(const net::BegunCalls& begun, ErrorPtr why) {
  calls_.suspect(begun);
  if (life_.lost_process(std::move(why))) old_process_settled();
  if (life_.dead()) {
    life_.process_is_over();
    die(life_.death());
  } else if (life_.direct()) {
    die(life_.last_death());
  }
}

wire::LightHome ActorClient::home() const {
  if (!life_.direct() || desc_.host == ProcessId{}) return {};
  return {desc_.host, home_.parts().runtime.welcome().job, desc_.class_name};
}

void ActorClient::heard_dead(const std::string& why) {
  if (life_.direct() && !life_.dead()) die(make_error<ActorDiedError>(why.empty() ? "the actor is dead" : why));
}

void ActorClient::die(const ErrorPtr& why) {
  life_.end(why);
  keep_arguments_.reset();
  home_.parts().untaken.taken(id());
  for (auto& entry : std::exchange(ready_refs_, {})) owner().objects().fail(*entry, why);
  held_.release(owner().holds());
  const ActorEnd end = end_by(why);
  calls_.fail_returned(end);
  const bool replies_may_come = life_.awaits_death() || (light() && !life_.process_dead());
  if (!replies_may_come) calls_.fail_sent(end);
  else if (calls_.answers_due()) await_last_answers();
  calls_.fail_unsent(end);
}

void ActorClient::clear(const ErrorPtr& why) {
  life_.stop_waiting();
  life_.process_is_over();
  if (before_head_)
    for (const auto& ref : std::exchange(before_head_->monitors, {})) owner().objects().fail(entry_of(ref), why);
  die(why);
}

}  // namespace troupe::worker
