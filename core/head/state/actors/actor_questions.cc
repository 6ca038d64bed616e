#include "core/head/state/actors/actor_questions.h"

namespace troupe::head {
namespace {

void answer_unknown(Turn& turn, ActorId id, const ActorQuestions::Question& question) {
  ErrorRecord error = error_record(
      ErrorCode::kActorDied,
      "actor " + to_string(id) + " is not known: it died long ago, or its creation was lost with its creator");
  error.outcome = Outcome::kNotExecuted;
  error.context.actor_id = to_string(id);
  const Caller& caller = question.caller;
  if (question.method == wire::Method::kResolveActor) {
    turn.effects.respond(caller.process, caller.token,
                         wire::ActorLocation{id, wire::ActorState::kDead, {}, 0, std::move(error)});
  } else if (question.method == wire::Method::kMonitorActor) {
    error.code = ErrorCode::kNotFound;
    turn.effects.respond(caller.process, caller.token, std::move(error));
  } else {
    turn.effects.respond(caller.process, caller.token, wire::Empty{});  // killing the dead is no error
  }
}

}  // namespace

void ActorQuestions::moved(Turn& turn, const wire::ActorLocation& where) const {
  for (ProcessId subscriber : subscribers_.of(where.actor))
    turn.effects.notice(subscriber, wire::Method::kActorMoved, where);
}

void ActorQuestions::died(Turn& turn, const DeadActor& dead, Subscribers subscribers) {
  if (subscribers == Subscribers::kTell && has_subscribers(dead.id))
    moved(turn, {dead.id, wire::ActorState::kDead, {}, dead.death.restarts, dead.call_error()});
  subscribers_.remove_actor(dead.id);
  auto monitors = monitors_.extract(dead.id);
  if (monitors.empty()) return;
  for (const Caller& caller : monitors.mapped()) turn.effects.respond(caller.process, caller.token, dead.death);
}

void ActorQuestions::park(Turn& turn, ActorId actor, Question question) {
  auto [at, first] = parked_.try_emplace(actor);
  if (first) {
    at->second.until = turn.now + kUnknownGrace;
    deadlines_.emplace_back(at->second.until, actor);
  }
  at->second.questions.push_back(std::move(question));
}

std::vector<ActorQuestions::Question> ActorQuestions::take(ActorId actor) {
  auto parked = parked_.extract(actor);
  return parked.empty() ? std::vector<Question>{} : std::move(parked.mapped().questions);
}

void ActorQuestions::forget_monitors(const std::function<bool(ProcessId)>& of) {
  for (auto at = monitors_.begin(); at != monitors_.end();) {
    std::erase_if(at->second, [&](const Caller& caller) { return of(caller.process); });
    at = at->second.empty() ? monitors_.erase(at) : std::next(at);
  }
}

void ActorQuestions::process_died(ProcessId process) {
  subscribers_.remove_process(process);
  forget_monitors([&](ProcessId one) { return one == process; });
}

void ActorQuestions::node_died(std::uint32_t node) {
  forget_monitors([&](ProcessId one) { return one.node == node; });
}

std::vector<ActorId> ActorQuestions::on_time(Turn& turn, const std::function<bool(ActorId)>& is_begun) {
  std::vector<ActorId> killed;
  for (; !deadlines_.empty() && deadlines_.front().first <= turn.now; deadlines_.pop_front()) {
    const auto [until, actor] = deadlines_.front();
    auto at = parked_.find(actor);
    if (at == parked_.end() || at->second.until != until) continue;  // taken, and perhaps parked anew
    bool is_killed = false;
    const bool comes = is_begun(actor);
    for (const Question& question : take(actor)) {
      if (comes && question.method != wire::Method::kKillActor) {
        park(turn, actor, question);
        continue;
      }
      answer_unknown(turn, actor, question);
      is_killed |= question.method == wire::Method::kKillActor && !question.restart;
    }
    if (is_killed) killed.push_back(actor);
  }
  return killed;
}

std::optional<Time> ActorQuestions::next_deadline() const {
  return deadlines_.empty() ? std::nullopt : std::optional(deadlines_.front().first);
}

}  // namespace troupe::head
