#include "core/process/wait_reason.h"

#include <fmt/format.h>

#include "core/process/core.h"

namespace troupe::worker {

namespace {

std::string where(ProcessId process) { return "process " + to_string(process); }

const char* why_queued_for(const ActorClient& actor) {
  switch (actor.life().state()) {
    case ActorLife::State::kCreating:
    case ActorLife::State::kLocating: return "its actor is not constructed yet";
    case ActorLife::State::kRestarting: return "its actor is being restarted";
    case ActorLife::State::kAlive: return "its actor is being connected";
    case ActorLife::State::kDead: return "its actor is dead";
  }
  return "its actor is not there";
}

std::string why_waiting(const PendingCall& call) {
  switch (call.state) {
    case PendingCall::State::kWaiting:
      return fmt::format("{} of its arguments {} not ready", call.unresolved, call.unresolved == 1 ? "is" : "are");
    case PendingCall::State::kBackoff: return "it failed and is tried again after a pause";
    case PendingCall::State::kQueued:
      return call.actor ? why_queued_for(client_of(call.actor)) : "no worker is free for it";
    case PendingCall::State::kSent:
      return call.actor ? fmt::format("its actor, in {}, runs it or has others before it", where(call.target))
                        : fmt::format("{} runs it, or has others before it", where(call.target));
    case PendingCall::State::kDone: return "its result is being taken in";
  }
  return "it is under way";
}

}  // namespace

ErrorRecord not_ready_error(Core& core, const ObjectEntry& entry, Duration timeout) {
  ErrorRecord record;
  record.code = ErrorCode::kGetTimeout;
  const std::string within = fmt::format("was not ready within {} s", std::chrono::duration<double>(timeout).count());
  if (entry.state() == ObjectEntry::kReady) {
    record.message =
        fmt::format("the object {} {}: its bytes are still being brought to this node", to_string(entry.id), within);
  } else if (const PendingCall* call = entry.producer) {
    record.context = core.calls().context_of(*call);
    record.message = fmt::format("the result of {} '{}' {}: {}", call->actor ? "the method" : "the task",
                                 core.calls().name_of(*call), within, why_waiting(*call));
  } else if (entry.owned) {
    record.message = fmt::format("the object {} {}", to_string(entry.id), within);
  } else {
    record.message = fmt::format("the object {} {}: its owner, another process, has not said that it is",
                                 to_string(entry.id), within);
  }
  return record;
}

}  // namespace troupe::worker
