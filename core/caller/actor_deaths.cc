// What becomes of calls when an actor moves, restarts or dies; ready and monitor.
#include <fmt/format.h>

#include "core/caller/actor_clients.h"
#include "core/runtime/runtime.h"
#include "core/caller/streams.h"

namespace troupe::worker {

namespace {
constexpr auto kDeathNoticeGrace = std::chrono::seconds(5);
}

detail::ObjectPtr ActorClients::ready(const detail::HandlePtr& handle) {
  ActorClient& client = client_of(handle);
  ObjectEntry* entry = owner_.objects().make_owned();
  const detail::ObjectPtr ref = detail::ObjectPtr::adopt(entry);
  if (client.state == ActorClient::State::kDead) owner_.objects().fail(*entry, client.death);
  else if (client.ever_alive) owner_.objects().complete(*entry, {});
  else {
    client.ready_refs.push_back(ObjectEntryPtr(entry));
    if (client.state == ActorClient::State::kLocating) locate(client);
  }
  return ref;
}

detail::ObjectPtr ActorClients::monitor(const detail::HandlePtr& handle) {
  ObjectEntry* entry = owner_.objects().make_owned();
  const detail::ObjectPtr ref = detail::ObjectPtr::adopt(entry);
  runtime_.requests().send<ActorDeath>(kHead, wire::Method::kMonitorActor, wire::ResolveActor{client_of(handle).id()},
                                       [this, ref](Result<ActorDeath> death) {
                                         if (!death.ok())
                                           return owner_.objects().fail(entry_of(ref), death.error_ptr());
                                         detail::Value value;
                                         const std::vector<std::byte> bytes = wire::encode_message(*death);
                                         value.body = detail::Bytes(bytes.data(), bytes.size());
                                         owner_.objects().complete(entry_of(ref), std::move(value));
                                       });
  return ref;
}

void ActorClients::on_moved(const wire::ActorLocation& location) {
  auto found = clients_.find(location.actor);
  if (found == clients_.end() || !found->second->try_retain()) return;
  const auto keep = detail::Ptr<ActorClient>::adopt(found->second);
  ActorClient& client = *keep;
  if (client.state == ActorClient::State::kDead) return;
  const ErrorPtr error = location.error ? Error::make(*location.error) : nullptr;
  const bool leaves = client.state == ActorClient::State::kAlive &&
                      !(location.state == wire::ActorState::kAlive && location.process == client.process);
  if (leaves && client.answers_due() && !client.process_dead && !runtime_.frames().is_dead(client.process) &&
      location.state != wire::ActorState::kAlive && !(client.light() && location.state == wire::ActorState::kDead)) {
    // What the old process had begun is known only with its death notice, or with a light actor's last answer; neither
    // must be long in coming.
    client.awaits_death = true;
    runtime_.add_timer(runtime_.deadline_after(kDeathNoticeGrace), [this, id = client.id(), process = client.process] {
      auto late = clients_.find(id);
      if (late == clients_.end() || !late->second->awaits_death || late->second->process != process ||
          !late->second->try_retain())
        return;
      const auto client = detail::Ptr<ActorClient>::adopt(late->second);
      client->awaits_death = false;
      mark_suspects(*client, net::BegunCalls::all());
      old_process_settled(*client);
    });
  }
  if (error) client.last_death = error;
  switch (location.state) {
    case wire::ActorState::kPending: client.state = ActorClient::State::kLocating; return;
    case wire::ActorState::kRestarting:
      client.state = ActorClient::State::kRestarting;
      if (!client.awaits_death) resend_or_fail(client);
      return;
    case wire::ActorState::kAlive:
      client.state = ActorClient::State::kAlive;
      client.ever_alive = true;
      if (!client.awaits_death) {
        const bool elsewhere = std::exchange(client.process, location.process) != location.process;
        client.process_dead = runtime_.frames().is_dead(location.process);
        if (elsewhere) resend_or_fail(client);
      } else {
        client.next_process = location.process;  // taken when the old one's death notice has come
      }
      for (auto& entry : std::exchange(client.ready_refs, {})) owner_.objects().complete(*entry, {});
      return flush_queue(client);
    case wire::ActorState::kDead:
      die(client, error ? error : make_error<ActorDiedError>("the actor is dead"));
  }
}

/// What the old process had begun is known now: the head's word, which came first, is followed.
void ActorClients::old_process_settled(ActorClient& client) {
  if (client.next_process != ProcessId{}) {
    client.process = std::exchange(client.next_process, ProcessId{});
    client.process_dead = runtime_.frames().is_dead(client.process);
  }
  resend_or_fail(client);
}

/// A light actor's host answers each call that it was sent, and need not die: with the last answer all is known.
void ActorClients::old_light_settled(ActorClient& client) {
  if (!client.awaits_death || !client.light() || client.answers_due()) return;
  client.awaits_death = false;
  old_process_settled(client);
}

void ActorClients::mark_suspects(ActorClient& client, const net::BegunCalls& begun) {
  for (PendingCall* call = client.sent.front(); call; call = call->next) {
    if (call->returned) continue;
    call->suspect = true;
    call->had_begun = begun.has(call->number);
  }
}

/// The head has decided that the actor goes on: suspects are sent again or fail, in order (CAC-2).
void ActorClients::resend_or_fail(ActorClient& client) {
  if (client.state == ActorClient::State::kDead) return die(client, client.death);
  std::vector<PendingCall*> again;
  CallList open;
  std::swap(open, client.sent);
  client.returned = 0;
  while (PendingCall* call = open.pop_front()) {
    if (call->cancelled) { calls_.forget(*call); continue; }
    const bool had_begun = std::exchange(call->had_begun, false) || !call->suspect;
    call->suspect = call->returned = false;
    if (had_begun) {
      if (call->retries_left == 0) {
        calls_.fail(*call, error_for(client, *call, client.last_death, Outcome::kUnknown));
        continue;
      }
      if (call->retries_left > 0) --call->retries_left;
      ++call->attempt;
    }
    call->state = PendingCall::State::kQueued;
    again.push_back(call);
  }
  for (auto at = again.rbegin(); at != again.rend(); ++at) client.queued.push_front(**at);
  flush_queue(client);
}

void ActorClients::die(ActorClient& client, const ErrorPtr& error) {
  client.state = ActorClient::State::kDead;
  client.death = error;
  client.keep_arguments.reset();
  untaken_.erase(client.id());
  for (auto& entry : std::exchange(client.ready_refs, {})) owner_.objects().fail(*entry, error);
  for (std::uint64_t arrival : std::exchange(client.arrivals, {})) owner_.holds().confirmed(arrival);
  fail_returned(client, error);
  const bool replies_may_come = client.awaits_death || (client.light() && !client.process_dead);
  if (!replies_may_come)
    while (PendingCall* call = client.sent.front()) {
      client.sent.remove(*call);
      if (call->cancelled) calls_.forget(*call);
      else
        calls_.fail(*call, error_for(client, *call, error,
                                     call->suspect && !call->had_begun ? Outcome::kNotExecuted : Outcome::kUnknown));
    }
  while (PendingCall* call = client.queued.pop_front())
    calls_.fail(*call, error_for(client, *call, error, Outcome::kNotExecuted));
  while (!client.waiting.empty()) {  // a call that fails may make others of these lists fail
    auto first = client.waiting.begin();
    if (PendingCall* call = first->second.pop_front())
      calls_.fail(*call, error_for(client, *call, error, Outcome::kNotExecuted));
    else client.waiting.erase(first);
  }
}

/// CAC-6: it had no next life.
void ActorClients::fail_returned(ActorClient& client, const ErrorPtr& error) {
  std::vector<PendingCall*> returned;
  for (PendingCall* call = client.sent.front(); call; call = call->next)
    if (call->returned) returned.push_back(call);
  client.returned = 0;
  for (PendingCall* call : returned) client.sent.remove(*call);
  for (PendingCall* call : returned) {
    if (call->cancelled) calls_.forget(*call);
    else calls_.fail(*call, error_for(client, *call, error, Outcome::kNotExecuted));
  }
}

void ActorClients::clear(const ErrorPtr& why) {
  auto without_host = std::exchange(without_host_, {});
  auto untaken = std::exchange(untaken_, {});
  std::vector<detail::Ptr<ActorClient>> all;
  for (auto& [id, client] : clients_)
    if (client->try_retain()) all.push_back(detail::Ptr<ActorClient>::adopt(client));
  for (auto& client : all) {
    client->awaits_death = false;
    client->process_dead = true;
    die(*client, why);
  }
}

/// The actor's death as this call sees it. Errors of construction pass through as they are.
ErrorPtr ActorClients::error_for(ActorClient& client, PendingCall& call, const ErrorPtr& death, Outcome outcome) const {
  if (death && death->code() != ErrorCode::kActorDied && !client.ever_alive) return death;
  if (call.attempt > 0) outcome = Outcome::kUnknown;  // CAC-5
  ErrorRecord record;
  if (death) record = death->record();
  record.code = ErrorCode::kActorDied;
  record.outcome = outcome;
  const ErrorContext context = calls_.context_of(call);
  record.context.function = context.function;
  record.context.task_id = context.task_id;
  record.context.actor_id = to_string(client.id());
  record.context.attempt = context.attempt;
  if (record.message.empty()) record.message = "the actor's process died";
  record.message = fmt::format("actor {} ({}): {}; the call {} {}", to_string(client.id()), client.desc().class_name,
                               record.message, record.context.function,
                               outcome == Outcome::kNotExecuted ? "was not executed" : "may have been executed");
  return Error::make(std::move(record));
}

/// One that is dead already gets no more replies; a light actor that was made directly has no second life.
void ActorClients::end_of_process(ActorClient& client) {
  if (client.state == ActorClient::State::kDead) {
    client.process_dead = true;
    die(client, client.death);
  } else if (client.direct) {
    die(client, client.last_death);
  }
}

void ActorClients::process_died(const wire::ProcessDied& died, const net::BegunCalls& begun) {
  std::vector<detail::Ptr<ActorClient>> hit;
  for (auto& [id, client] : clients_)
    if (client->process == died.process && client->try_retain()) hit.push_back(detail::Ptr<ActorClient>::adopt(client));
  for (auto& client : hit) {
    mark_suspects(*client, begun);
    client->last_death = make_error<ActorDiedError>(died.reason.empty() ? std::string("its process died")
                                                                        : "its process died: " + died.reason);
    if (std::exchange(client->awaits_death, false)) old_process_settled(*client);
    else client->process_dead = true;
    end_of_process(*client);
  }
  if (std::erase(light_hosts_, died.process) > 0) next_host_ = 0;
}

void ActorClients::node_died(std::uint32_t node, const ErrorPtr& error) {
  std::vector<detail::Ptr<ActorClient>> hit;
  for (auto& [id, client] : clients_)
    if (client->process.node == node && client->try_retain()) hit.push_back(detail::Ptr<ActorClient>::adopt(client));
  for (auto& client : hit) {
    if (client->process_dead) continue;
    mark_suspects(*client, net::BegunCalls::all());
    client->last_death = make_error<ActorDiedError>(error->message());
    if (std::exchange(client->awaits_death, false)) old_process_settled(*client);
    else client->process_dead = true;
    end_of_process(*client);
  }
}

}  // namespace troupe::worker
