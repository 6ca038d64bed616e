#include "core/caller/actor_calls.h"

#include <fmt/format.h>

#include <utility>

namespace troupe::worker {

// ----------------------------------------------------------------------------------------------- waiting for arguments

void ActorCalls::wait(PendingCall& call) {
  call.state = PendingCall::State::kWaiting;
  waiting_[call.caller].push_back(call);
}

void ActorCalls::stop_waiting(PendingCall& call) {
  const auto list = waiting_.find(call.caller);
  if (list == waiting_.end()) return;
  list->second.remove(call);
  if (!list->second.front()) waiting_.erase(list);  // each task that calls is a caller of its own
}

PendingCall* ActorCalls::next_of(std::uint64_t caller) {
  auto found = waiting_.find(caller);
  if (found == waiting_.end()) return nullptr;
  PendingCall* call = found->second.front();
  if (!call) waiting_.erase(found);
  if (!call || call->unresolved > 0) return nullptr;
  found->second.remove(*call);
  return call;
}

// ------------------------------------------------------------------------------------------------- waiting for a place

void ActorCalls::queue(PendingCall& call) {
  call.state = PendingCall::State::kQueued;
  queued_.push_back(call);
}

void ActorCalls::send_all(ProcessId process) {
  while (PendingCall* call = queued_.pop_front()) {
    if (ErrorPtr too_large = calls_.check_size(*call)) {
      calls_.fail(*call, too_large);
      continue;
    }
    sent_.push_back(*call);
    calls_.send(*call, process);
  }
}

// ---------------------------------------------------------------------------------------------------------------- sent

void ActorCalls::came_back(PendingCall& call) {
  call.suspect = call.returned = true;
  ++returned_;
}

// --------------------------------------------------------------------------------------------------- the end of a life

void ActorCalls::suspect(const net::BegunCalls& begun) {
  for (PendingCall* call = sent_.front(); call; call = call->next) {
    if (call->returned) continue;
    call->suspect = true;
    call->had_begun = begun.has(call->number);
  }
}

void ActorCalls::resend(const ActorEnd& end) {
  std::vector<PendingCall*> again;
  CallList open;
  std::swap(open, sent_);
  returned_ = 0;
  while (PendingCall* call = open.pop_front()) {
    if (call->cancelled) { calls_.forget(*call); continue; }
    const bool had_begun = std::exchange(call->had_begun, false) || !call->suspect;
    call->suspect = call->returned = false;
    if (had_begun) {
      if (call->retries_left == 0) {
        calls_.fail(*call, error_for(*call, end, Outcome::kUnknown));
        continue;
      }
      if (call->retries_left > 0) --call->retries_left;
      ++call->attempt;
    }
    call->state = PendingCall::State::kQueued;
    again.push_back(call);
  }
  for (auto at = again.rbegin(); at != again.rend(); ++at) queued_.push_front(**at);
}

void ActorCalls::fail_returned(const ActorEnd& end) {
  std::vector<PendingCall*> returned;
  for (PendingCall* call = sent_.front(); call; call = call->next)
    if (call->returned) returned.push_back(call);
  returned_ = 0;
  for (PendingCall* call : returned) sent_.remove(*call);
  for (PendingCall* call : returned) end_sent(*call, end, Outcome::kNotExecuted);
}

void ActorCalls::fail_sent(const ActorEnd& end) {
  while (PendingCall* call = sent_.pop_front())
    end_sent(*call, end, call->suspect && !call->had_begun ? Outcome::kNotExecuted : Outcome::kUnknown);
}

void ActorCalls::fail_unsent(const ActorEnd& end) {
  while (PendingCall* call = queued_.pop_front()) refuse(*call, end);
  while (!waiting_.empty()) {  // a call that fails may make others of these lists fail
    auto first = waiting_.begin();
    if (PendingCall* call = first->second.pop_front()) refuse(*call, end);
    else waiting_.erase(first);
  }
}

void ActorCalls::refuse(PendingCall& call, const ActorEnd& end) {
  calls_.fail(call, error_for(call, end, Outcome::kNotExecuted));
}

/// One that was cancelled has its results already.
void ActorCalls::end_sent(PendingCall& call, const ActorEnd& end, Outcome outcome) {
  if (call.cancelled) calls_.forget(call);
  else calls_.fail(call, error_for(call, end, outcome));
}

/// The actor's death as this call sees it. Errors of construction pass through as they are.
ErrorPtr ActorCalls::error_for(const PendingCall& call, const ActorEnd& end, Outcome outcome) const {
  if (end.why && end.why->code() != ErrorCode::kActorDied && !end.constructed) return end.why;
  if (call.attempt > 0) outcome = Outcome::kUnknown;  // CAC-5
  ErrorRecord record;
  if (end.why) record = end.why->record();
  record.code = ErrorCode::kActorDied;
  record.outcome = outcome;
  const ErrorContext context = calls_.context_of(call);
  record.context.function = context.function;
  record.context.task_id = context.task_id;
  record.context.actor_id = to_string(end.actor);
  record.context.attempt = context.attempt;
  if (record.message.empty()) record.message = "the actor's process died";
  record.message = fmt::format("actor {} ({}): {}; the call {} {}", to_string(end.actor), end.class_name,
                               record.message, record.context.function,
                               outcome == Outcome::kNotExecuted ? "was not executed" : "may have been executed");
  return Error::make(std::move(record));
}

}  // namespace troupe::worker
