// Tasks that were cancelled, failed or lost their worker: what is tried again, and what is not.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/worker/core.h"
#include "core/worker/streams.h"
#include "core/worker/task_submitter.h"

namespace troupe::worker {

namespace {

constexpr auto kCancelGrace = std::chrono::seconds(5);

Duration backoff_delay(const Backoff& backoff, std::uint32_t attempt, double chance) {
  double delay = double(backoff.initial.count()) * std::pow(std::max(1.0, backoff.factor), double(attempt));
  delay = std::min(delay, double(backoff.max.count()));
  delay *= 1 + backoff.jitter * (2 * chance - 1);
  return Duration(std::max<std::int64_t>(0, std::int64_t(delay)));
}

}  // namespace

// --------------------------------------------------------------------------------------------------------- retries and deaths

bool TaskSubmitter::retry(PendingCall& call, std::int32_t& budget) {
  if (budget == 0) return false;
  if (budget > 0) --budget;
  const Backoff backoff = call.info ? call.info->retry.backoff : Backoff{};
  const Duration delay = backoff_delay(backoff, call.attempt, core_.chance());
  ++call.attempt;
  call.state = PendingCall::State::kBackoff;
  exec::Deadline when = core_.deadline_after(delay);
  const bool too_late = call.info && call.info->timeout != kForever && when >= call.info->first_sent + call.info->timeout;
  if (too_late) when = call.info->first_sent + call.info->timeout;
  core_.add_timer(when, [this, id = call.id, too_late] {
    PendingCall* again = core_.calls().find(id);
    if (!again || again->state != PendingCall::State::kBackoff) return;
    if (!too_late) return enqueue(*again, false);
    ErrorRecord record;
    record.code = ErrorCode::kDeadlineExceeded;
    record.context = core_.calls().context_of(*again);
    record.message = "the task " + core_.calls().name_of(*again) + " did not end within its timeout: it was to be tried again when the time was over";
    core_.calls().fail(*again, Error::make(std::move(record)));
  });
  return true;
}

void TaskSubmitter::crashed(PendingCall& call, const ErrorPtr& error, bool out_of_memory) {
  if (call.cancelled) return core_.calls().forget(call);
  if (!retry(call, out_of_memory ? call.oom_retries_left : call.retries_left)) core_.calls().fail(call, error);
}

ErrorPtr TaskSubmitter::crash_error(const PendingCall& call, const wire::ProcessDied& died) const {
  ErrorRecord record;
  record.code = died.out_of_memory ? ErrorCode::kOutOfMemory : died.cause == DeathCause::kNodeDied ? ErrorCode::kNodeDied : ErrorCode::kWorkerCrashed;
  record.context = core_.calls().context_of(call);
  record.context.node = died.node_id;
  record.context.pid = died.pid;
  record.context.log_tail = died.log_tail;
  record.message = fmt::format("the worker that ran {} died: {}", record.context.function, died.reason.empty() ? "unknown reason" : died.reason);
  return Error::make(std::move(record));
}

void TaskSubmitter::lease_lost(LeaseState& lease, const wire::ProcessDied& died, std::uint64_t begun) {
  std::vector<PendingCall*> unbegun;
  while (PendingCall* call = lease.sent.pop_front()) {
    call->lease = nullptr;
    if (call->number > begun) unbegun.push_back(call);
    else crashed(*call, crash_error(*call, died), died.out_of_memory);
  }
  for (auto at = unbegun.rbegin(); at != unbegun.rend(); ++at) {  // TS-3
    if ((*at)->cancelled) core_.calls().forget(**at);
    else enqueue(**at, true);
  }
}

void TaskSubmitter::process_died(const wire::ProcessDied& died, std::uint64_t begun) {
  for (auto& of : classes_) {
    std::vector<std::unique_ptr<LeaseState>> lost;
    for (auto& lease : of->leases)
      if (lease->worker == died.process) lost.push_back(std::move(lease));
    if (lost.empty()) continue;
    std::erase(of->leases, nullptr);
    for (auto& lease : lost) {
      give_back(*lease, true);
      lease_lost(*lease, died, begun);
    }
    pump(*of);
  }
}

void TaskSubmitter::node_died(std::uint32_t node, const ErrorPtr& error) {
  for (auto& of : classes_) {
    std::vector<std::unique_ptr<LeaseState>> lost;
    for (auto& lease : of->leases)
      if (lease->worker.node == node) lost.push_back(std::move(lease));
    std::erase(of->leases, nullptr);
    for (auto& lease : lost) {
      // Which call had begun is not known: a worker runs them one by one, so it is the first at most.
      const std::uint64_t first = lease->sent.front() ? lease->sent.front()->number : 0;
      wire::ProcessDied died;
      died.process = lease->worker;
      died.cause = DeathCause::kNodeDied;
      died.reason = error->message();
      died.node_id = error->context().node;
      lease_lost(*lease, died, first);
    }
    if (!lost.empty()) pump(*of);
  }
}

// ---------------------------------------------------------------------------------------------------------------- cancelling

void TaskSubmitter::kill_after_grace(PendingCall& call) {
  core_.add_timer(core_.deadline_after(kCancelGrace), [this, id = call.id] {
    PendingCall* still = core_.calls().find(id);
    if (!still || still->state != PendingCall::State::kSent) return;
    core_.requests().send<wire::Empty>(daemon_of(still->target.node), wire::Method::kKillProcess,
                                       wire::KillProcess{still->target, "a cancelled task did not end within its grace", DeathCause::kKilled}, [](auto) {});
  });
}

void TaskSubmitter::cancel(PendingCall& call, const CancelOptions& options, ErrorPtr error) {
  if (call.cancelled && !options.force) return;
  if (!error) {
    ErrorRecord record;
    record.code = ErrorCode::kCancelled;
    record.context = core_.calls().context_of(call);
    record.message = "the task " + core_.calls().name_of(call) + " was cancelled";
    error = Error::make(std::move(record));
  }
  switch (call.state) {
    case PendingCall::State::kQueued: {
      ClassState& of = *call.lease_class;
      of.queue.remove(call);
      core_.calls().fail(call, error);
      return announce(of);
    }
    case PendingCall::State::kSent:
      core_.calls().fail_results(call, error);
      call.cancelled = true;
      kill_after_grace(call);
      core_.courier().control(call.target, Control::kCancel, call.id, (options.recursive ? kCancelRecursive : 0) | (options.force ? kCancelForce : 0));
      return;
    default: core_.calls().fail(call, error);
  }
}

}  // namespace troupe::worker
