#include "core/worker/task_submitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/worker/buffers.h"
#include "core/worker/core.h"
#include "core/worker/streams.h"

namespace troupe::worker {

namespace {

constexpr auto kLeaseIdle = std::chrono::milliseconds(10);
constexpr std::size_t kDepthMax = 512;
constexpr double kQueueAheadUs = 4000;        // a lease's queue is worth at most about this much time
constexpr double kShortTaskUs = 1000;
constexpr std::uint32_t kWantedMax = 1024, kWantedMaxFree = 64;  // free: tasks that ask for no CPU start a process each
constexpr std::size_t kKeysMax = 10'000;
constexpr auto kKeyLife = std::chrono::hours(1);

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
  info->plain_resources = options.resources.gpus == 0 && options.resources.memory == 0 && options.resources.custom.empty();
  info->stream_buffer = options.stream_buffer ? options.stream_buffer : 64;
  return info;
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------- submitting

ClassState& TaskSubmitter::class_of(const TaskOptions* options) {
  if (!options && default_class_) return *default_class_;
  static const TaskOptions defaults;
  const TaskOptions& from = options ? *options : defaults;
  wire::LeaseClass wanted{core_.welcome().job, from.resources, from.scheduling, from.labels, from.env};
  if (wanted.resources.cpus == kUnset) wanted.resources.cpus = 1;
  if (last_class_ && last_class_->lease_class == wanted) return *last_class_;
  for (auto& one : classes_)
    if (one->lease_class == wanted) return *(last_class_ = one.get());
  auto made = std::make_unique<ClassState>();
  made->request_id = classes_.size() + 1;
  made->lease_class = std::move(wanted);
  classes_.push_back(std::move(made));
  if (!options) default_class_ = classes_.back().get();
  return *(last_class_ = classes_.back().get());
}

void TaskSubmitter::submit(detail::OutgoingCall outgoing, const TaskOptions* options, detail::ObjectPtr* returns, StreamState* stream) {
  const std::string key = options ? options->idempotency_key : std::string();
  const std::uint32_t count = outgoing.returns;
  if (!key.empty() && returns) {
    const auto now = core_.now();
    while (!keyed_order_.empty() && (keyed_order_.size() > kKeysMax || keyed_order_.front().first < now)) {
      keyed_.erase(keyed_order_.front().second);
      keyed_order_.pop_front();
    }
    if (auto found = keyed_.find(key); found != keyed_.end() && found->second.size() == count &&
        std::none_of(found->second.begin(), found->second.end(), [](auto& one) { return entry_of(one).state() == ObjectEntry::kFailed; })) {
      std::copy(found->second.begin(), found->second.end(), returns);
      return;
    }
  }
  PendingCall* call = core_.calls().make(std::move(outgoing), CallKind::kTask, returns);
  call->retries_left = RetryPolicy{}.max_retries;
  if (options) {
    call->info = info_of(*options);
    call->retries_left = options->retry.max_retries;
    call->oom_retries_left = options->retry.max_oom_retries;
  }
  if (!key.empty() && returns) {
    keyed_[key] = {returns, returns + count};
    keyed_order_.emplace_back(core_.now() + kKeyLife, key);
  }
  if (stream) {
    call->stream = stream;
    stream->call_id = call->id;
    if (!call->info) {
      auto info = std::make_shared<CallInfo>();
      info->stream_buffer = stream->buffer();
      call->info = std::move(info);
    }
  }
  call->lease_class = &class_of(options);
  if (ErrorPtr failed = core_.shutting_down() ? core_.shutdown_reason() : core_.calls().resolve(*call)) return core_.calls().fail(*call, failed);
  if (call->unresolved == 0) enqueue(*call, false);
}

void TaskSubmitter::arguments_ready(PendingCall& call) {
  for (const auto& dependency : call.dependencies)
    if (entry_of(dependency).state() == ObjectEntry::kFailed) return core_.calls().fail(call, entry_of(dependency).error);
  enqueue(call, false);
}

void TaskSubmitter::enqueue(PendingCall& call, bool front) {
  call.state = PendingCall::State::kQueued;
  ClassState& of = *call.lease_class;
  if (front) of.queue.push_front(call);
  else of.queue.push_back(call);
  pump(of);
}

std::size_t TaskSubmitter::depth(const ClassState& of) const {
  if (of.run_us < 0 || of.run_us >= kShortTaskUs) return 1;
  return std::clamp<std::size_t>(std::size_t(kQueueAheadUs / std::max(of.run_us, 1.0)), 2, kDepthMax);
}

void TaskSubmitter::pump(ClassState& of) {
  const std::size_t most = depth(of);
  while (!of.queue.empty() && !of.leases.empty()) {
    LeaseState* best = nullptr;
    for (auto& lease : of.leases)
      if (!lease->paused && lease->sent.size() < most && (!best || lease->sent.size() < best->sent.size())) {
        best = lease.get();
        if (best->sent.empty()) break;
      }
    if (!best) break;
    PendingCall& call = *of.queue.pop_front();
    best->sent.push_back(call);
    best->idle_since = exec::kNever;
    call.lease = best;
    core_.calls().send(call, best->worker);
  }
  announce(of);
}

void TaskSubmitter::announce(ClassState& of) {
  const std::uint32_t cap = of.lease_class.resources.cpus > 0 ? kWantedMax : kWantedMaxFree;
  const std::uint32_t room = cap > of.leases.size() ? cap - std::uint32_t(of.leases.size()) : 0;
  const std::uint32_t wanted = std::uint32_t(std::min<std::size_t>(of.queue.size(), room));
  const bool worth = wanted == 0 ? of.announced != 0 : (of.announced == 0 || wanted >= 2 * of.announced || 2 * wanted <= of.announced);
  if (!worth) return;
  of.announced = wanted;
  wire::LeaseWanted message{core_.self(), of.request_id, of.lease_class, wanted, 0, {}};
  if (of.queue.front()) {
    std::map<std::uint32_t, std::uint64_t> bytes;
    for (const auto& dependency : of.queue.front()->dependencies) {
      const detail::Value& value = entry_of(dependency).value;
      if (value.large_body) bytes[buffer_of(value.large_body).desc.node] += value.large_body->size();
      if (value.attachments)
        for (const auto& buffer : value.attachments->buffers) bytes[buffer_of(buffer).desc.node] += buffer->size();
    }
    message.bytes_by_node.assign(bytes.begin(), bytes.end());
  }
  core_.courier().notice(core_.daemon(), wire::Method::kLeaseWanted, message);
}

// -------------------------------------------------------------------------------------------------------------------- leases

void TaskSubmitter::on_granted(const wire::LeaseGranted& granted) {
  if (granted.request_id == 0 || granted.request_id > classes_.size()) return;
  ClassState& of = *classes_[granted.request_id - 1];
  if (of.announced > 0) --of.announced;
  auto lease = std::make_unique<LeaseState>();
  lease->id = granted.lease_id;
  lease->worker = granted.worker;
  lease->worker_pid = granted.worker_pid;
  lease->owner = &of;
  lease->idle_since = core_.now();
  if (core_.courier().is_dead(granted.worker)) {
    give_back(*lease, true);
    return announce(of);  // the daemon counts this one as granted
  }
  of.leases.push_back(std::move(lease));
  pump(of);
  start_idle_timer();
}

void TaskSubmitter::on_refused(const wire::LeaseRefused& refused) {
  if (refused.request_id == 0 || refused.request_id > classes_.size()) return;
  ClassState& of = *classes_[refused.request_id - 1];
  of.announced = 0;
  const ErrorPtr error = Error::make(refused.error);
  while (PendingCall* call = of.queue.pop_front()) core_.calls().fail(*call, error);
}

void TaskSubmitter::give_back(LeaseState& lease, bool dead) {
  core_.courier().notice(daemon_of(lease.worker.node), wire::Method::kLeaseReturned, wire::LeaseReturned{lease.id, dead});
}

void TaskSubmitter::start_idle_timer() {
  if (idle_timer_) return;
  idle_timer_ = true;
  core_.add_timer(core_.now() + kLeaseIdle, [this] { check_idle(); });
}

void TaskSubmitter::check_idle() {
  idle_timer_ = false;
  const auto now = core_.now();
  bool more = false;
  for (auto& of : classes_) {
    std::erase_if(of->leases, [&](auto& lease) {
      if (!lease->sent.empty() || lease->idle_since == exec::kNever) return false;
      if (now - lease->idle_since < kLeaseIdle) {
        more = true;
        return false;
      }
      give_back(*lease, false);
      return true;
    });
  }
  if (more) start_idle_timer();
}

void TaskSubmitter::call_left(PendingCall& call) {
  LeaseState* lease = std::exchange(call.lease, nullptr);
  if (!lease) return;
  lease->sent.remove(call);
  if (lease->sent.empty()) {
    lease->paused = false;
    lease->idle_since = core_.now();
    start_idle_timer();
  }
}

void TaskSubmitter::on_reply(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source) {
  ClassState& of = *call.lease_class;
  const bool early = head.reserved != 0;  // the deadline's error, while the function still runs
  if (!early) {
    const double us = double(head.run_us);
    of.run_us = of.run_us < 0 ? us : of.run_us * 0.9 + us * 0.1;
    if (call.lease) call.lease->paused = false;
    call_left(call);
  }
  if (call.cancelled) {
    core_.transit().discard(head, in, source);
    if (!early) core_.calls().forget(call);
  } else if (head.status == ReplyStatus::kError) {
    Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(in.rest());
    const ErrorPtr error = record.ok() ? Error::make(*record) : record.error_ptr();
    const auto* task_error = dynamic_cast<const TaskError*>(error.get());
    if (early) {
      core_.calls().fail_results(call, error);
      call.cancelled = true;
      if (call.lease) call.lease->paused = true;
      kill_after_grace(call);
    } else if (!(task_error && call.info && approves_retry(call.info->retry, *task_error) && retry(call, call.retries_left))) {
      core_.calls().fail(call, error);
    }
  } else {
    core_.calls().succeed(call, head, in, source);
  }
  pump(of);
}

void TaskSubmitter::on_recalled(PendingCall& call) {
  if (!call.lease) return;
  LeaseState& lease = *call.lease;
  lease.sent.remove(call);
  call.lease = nullptr;
  lease.paused = !lease.sent.empty();
  if (call.cancelled) return core_.calls().forget(call);
  enqueue(call, true);
}

}  // namespace troupe::worker
