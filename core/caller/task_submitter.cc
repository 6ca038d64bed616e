#include "core/caller/task_submitter.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/backoff.h"
#include "core/caller/streams.h"
#include "core/runtime/runtime.h"

namespace troupe::worker {

namespace {

constexpr auto kCancelGrace = std::chrono::seconds(5);
constexpr std::uint32_t kStreamBuffer = 64;

/// The user's predicate; one that throws approves of nothing.
bool approves_retry(const RetryPolicy& policy, const TaskError& error) {
  try {
    return policy.retry_error && policy.retry_error(error);
  } catch (...) {
    return false;
  }
}

std::shared_ptr<const CallInfo> info_of(const TaskOptions& options) {
  auto info = std::make_shared<CallInfo>();
  info->name = options.name;
  info->key = options.idempotency_key;
  info->timeout = options.timeout;
  info->retry = options.retry;
  info->resources = options.resources;
  info->plain_resources =
      options.resources.gpus == 0 && options.resources.memory == 0 && options.resources.custom.empty();
  info->stream_buffer = options.stream_buffer ? options.stream_buffer : kStreamBuffer;
  return info;
}

}  // namespace

TaskSubmitter::TaskSubmitter(Runtime& runtime, Owner& owner, CallTable& calls)
    : runtime_(runtime),
      owner_(owner),
      calls_(calls),
      leases_(runtime, calls, [this](PendingCall& call) { start_deadline(call); }) {}

// ---------------------------------------------------------------------------------------------------------- submitting

void TaskSubmitter::submit(detail::OutgoingCall outgoing, const TaskOptions* options, detail::ObjectPtr* returns,
                           StreamState* stream) {
  const std::string key = options ? options->idempotency_key : std::string();
  const std::uint32_t count = outgoing.returns;
  const bool keyed = !key.empty() && returns && count > 0;
  if (keyed) {
    forget_keyed();
    const auto failed = [](auto& one) { return entry_of(one).state() == ObjectEntry::kFailed; };
    if (auto* known = keyed_.find(key);
        known && known->size() == count && std::none_of(known->begin(), known->end(), failed)) {
      std::copy(known->begin(), known->end(), returns);
      return;
    }
  }
  PendingCall* call = calls_.make(std::move(outgoing), CallKind::kTask, returns);
  call->retries_left = RetryPolicy{}.max_retries;
  if (options) {
    call->info = info_of(*options);
    call->retries_left = options->retry.max_retries;
    call->oom_retries_left = options->retry.max_oom_retries;
  }
  if (keyed) remember_keyed(key, {returns, returns + count});
  if (stream) {
    call->stream = stream;
    stream->call_id = call->id;
    if (!call->info) {
      auto info = std::make_shared<CallInfo>();
      info->stream_buffer = stream->buffer();
      call->info = std::move(info);
    }
  }
  leases_.join_class(*call, options);
  if (ErrorPtr failed = runtime_.shutting_down() ? runtime_.shutdown_reason() : calls_.resolve(*call))
    return calls_.fail(*call, failed);
  if (call->unresolved == 0) leases_.enqueue(*call);
}

void TaskSubmitter::arguments_ready(PendingCall& call) {
  for (const auto& dependency : call.dependencies)
    if (entry_of(dependency).state() == ObjectEntry::kFailed) return calls_.fail(call, entry_of(dependency).error);
  leases_.enqueue(call);
}

void TaskSubmitter::remember_keyed(const std::string& key, std::vector<detail::ObjectPtr> results) {
  ObjectEntry& first = entry_of(results.front());
  first.rare().callbacks.push_back([this, key, id = first.id] {
    CoreLock lock(runtime_);
    const auto* known = keyed_.find(key);
    if (!known || entry_of(known->front()).id != id) return;  // another task took its key
    keyed_.keep(key, runtime_.now());
    forget_keyed();
  });
  keyed_.insert(key, std::move(results));
}

/// What is too old goes now; what is left is looked at again when the oldest is due, also if nobody submits any more.
void TaskSubmitter::forget_keyed() {
  const exec::Deadline next = keyed_.expire(runtime_.now());
  if (next == exec::kNever || std::exchange(keyed_timer_, true)) return;
  runtime_.add_timer(next, [this] {
    keyed_timer_ = false;
    forget_keyed();
  });
}

// ------------------------------------------------------------------------------------------------------------- replies

void TaskSubmitter::on_reply(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source) {
  ClassState& of = *call.lease_class;
  leases_.on_replied(call, head);
  if (call.cancelled) {
    owner_.values().discard(head, in, source);
    calls_.forget(call);
  } else if (head.status == ReplyStatus::kError) {
    Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(in.rest());
    failed(call, record.ok() ? Error::make(*record) : record.error_ptr());
  } else {
    calls_.succeed(call, head, in, source);
  }
  leases_.pump(of);
}

/// The function failed. Whether it is tried again the user may decide: by a predicate, which is user code (CL-1).
void TaskSubmitter::failed(PendingCall& call, const ErrorPtr& error) {
  const bool may_ask = call.retries_left != 0 && call.info && call.info->retry.retry_error;
  if (!may_ask || !dynamic_cast<const TaskError*>(error.get())) return calls_.fail(call, error);
  call.state = PendingCall::State::kBackoff;
  runtime_.run_later([this, id = call.id, info = call.info, error] {
    const bool again = approves_retry(info->retry, dynamic_cast<const TaskError&>(*error));
    CoreLock lock(runtime_);
    PendingCall* call = calls_.find(id);
    if (!call || call->state != PendingCall::State::kBackoff) return;  // cancelled, or its time was over
    if (call->cancelled) return calls_.forget(*call);
    if (!again || !retry(*call, call->retries_left)) calls_.fail(*call, error);
  });
}

void TaskSubmitter::on_recalled(const std::vector<PendingCall*>& calls) {
  std::vector<PendingCall*> unbegun;
  std::vector<ClassState*> classes;  // nearly always one
  for (PendingCall* call : calls) {
    if (!call->lease) continue;  // named twice
    leases_.on_recalled(*call);
    unbegun.push_back(call);
    if (std::ranges::find(classes, call->lease_class) == classes.end()) classes.push_back(call->lease_class);
  }
  put_back(std::move(unbegun));
  for (ClassState* of : classes) leases_.pump(*of);
}

void TaskSubmitter::put_back(std::vector<PendingCall*> unbegun) {
  std::erase_if(unbegun, [&](PendingCall* call) {
    if (!call->cancelled) return false;
    calls_.forget(*call);
    return true;
  });
  leases_.put_back(unbegun);
}

// -------------------------------------------------------------------------------------------------- retries and deaths

bool TaskSubmitter::retry(PendingCall& call, std::int32_t& budget) {
  if (budget == 0) return false;
  if (budget > 0) --budget;
  const Backoff backoff = call.info ? call.info->retry.backoff : Backoff{};
  const Duration delay = backoff_delay(backoff, call.attempt, runtime_.chance());
  ++call.attempt;
  call.state = PendingCall::State::kBackoff;
  runtime_.add_timer(runtime_.deadline_after(delay), [this, id = call.id, attempt = call.attempt] {
    PendingCall* again = calls_.find(id);
    if (!again || again->state != PendingCall::State::kBackoff || again->attempt != attempt) return;
    if (again->cancelled) return calls_.forget(*again);
    leases_.enqueue(*again);
  });
  return true;
}

void TaskSubmitter::crashed(PendingCall& call, const ErrorPtr& error, bool out_of_memory) {
  if (call.cancelled) return calls_.forget(call);
  if (!retry(call, out_of_memory ? call.oom_retries_left : call.retries_left)) calls_.fail(call, error);
}

ErrorPtr TaskSubmitter::crash_error(const PendingCall& call, const wire::ProcessDied& died) const {
  ErrorRecord record;
  record.code = died.out_of_memory                    ? ErrorCode::kOutOfMemory
                : died.cause == DeathCause::kNodeDied ? ErrorCode::kNodeDied
                                                      : ErrorCode::kWorkerCrashed;
  record.context = calls_.context_of(call);
  record.context.node = died.node_id;
  record.context.pid = died.pid;
  record.context.log_tail = died.log_tail;
  record.message = fmt::format("the worker that ran {} died: {}", record.context.function,
                               died.reason.empty() ? "unknown reason" : died.reason);
  return Error::make(std::move(record));
}

void TaskSubmitter::lease_lost(const LeasePool::Lost& lost, const wire::ProcessDied& died,
                               const net::BegunCalls& begun) {
  std::vector<PendingCall*> unbegun;
  for (PendingCall* call : lost.calls) {
    if (!begun.has(call->number)) unbegun.push_back(call);
    else crashed(*call, crash_error(*call, died), died.out_of_memory);
  }
  put_back(std::move(unbegun));  // TS-3
  leases_.pump(*lost.of);
}

void TaskSubmitter::process_died(const wire::ProcessDied& died, const net::BegunCalls& begun) {
  auto dead = [&](ProcessId worker) { return worker == died.process; };
  for (const auto& lost : leases_.take_lost(dead, true)) lease_lost(lost, died, begun);
}

/// What a worker of a lost node had begun, or even done, is not known: of all that it was sent, any may have run.
void TaskSubmitter::node_died(std::uint32_t node, const ErrorPtr& error) {
  auto dead = [&](ProcessId worker) { return worker.node == node; };
  for (const auto& lost : leases_.take_lost(dead, false)) {
    wire::ProcessDied died;
    died.process = lost.worker;
    died.cause = DeathCause::kNodeDied;
    died.reason = error->message();
    died.node_id = error->context().node;
    lease_lost(lost, died, net::BegunCalls::all());
  }
  leases_.repeat_wishes();
}

// -------------------------------------------------------------------------------------------- deadlines and cancelling

/// The first attempt was sent: the time of all attempts runs from now.
void TaskSubmitter::start_deadline(PendingCall& call) {
  if (call.timer != 0 || call.attempt != 0) return;
  call.timer = runtime_.add_timer(runtime_.deadline_after(call.info->timeout), [this, id = call.id] {
    PendingCall* late = calls_.find(id);
    if (!late) return;
    late->timer = 0;
    ErrorRecord record;
    record.code = ErrorCode::kDeadlineExceeded;
    record.context = calls_.context_of(*late);
    record.message = "the task " + calls_.name_of(*late) + " did not end within its timeout";
    if (late->state == PendingCall::State::kBackoff)
      record.message += ": it was to be tried again when the time was over";
    if (late->state == PendingCall::State::kQueued) record.message += ": it waited for a lease to be tried again";
    cancel(*late, {}, Error::make(std::move(record)));
  });
}

void TaskSubmitter::kill_after_grace(PendingCall& call) {
  runtime_.add_timer(runtime_.deadline_after(kCancelGrace), [this, id = call.id] {
    PendingCall* still = calls_.find(id);
    if (!still || still->state != PendingCall::State::kSent) return;
    const wire::KillProcess kill{still->target, "a cancelled task did not end within its grace", DeathCause::kKilled};
    runtime_.requests().send<wire::Empty>(daemon_of(still->target.node), wire::Method::kKillProcess, kill, [](auto) {});
  });
}

void TaskSubmitter::cancel(PendingCall& call, const CancelOptions& options, ErrorPtr error) {
  if (call.cancelled && !options.force) return;
  std::uint64_t flags = (options.recursive ? kCancelRecursive : 0) | (options.force ? kCancelForce : 0);
  if (error && error->code() == ErrorCode::kDeadlineExceeded) flags |= kCancelDeadline;
  if (!error) {
    ErrorRecord record;
    record.code = ErrorCode::kCancelled;
    record.context = calls_.context_of(call);
    record.message = "the task " + calls_.name_of(call) + " was cancelled";
    error = Error::make(std::move(record));
  }
  switch (call.state) {
    case PendingCall::State::kQueued: {
      ClassState& of = *call.lease_class;
      leases_.remove_queued(call);
      calls_.fail(call, error);
      return leases_.pump(of);
    }
    case PendingCall::State::kSent:
      calls_.fail_results(call, error);
      call.cancelled = true;
      leases_.pause(call);
      kill_after_grace(call);
      return runtime_.frames().control(call.target, Control::kCancel, call.id, flags);
    default: calls_.fail(call, error);
  }
}

}  // namespace troupe::worker
