#include "core/caller/actor_clients.h"

#include <optional>

#include "core/runtime/runtime.h"
#include "core/runtime/waits.h"

namespace troupe::worker {

ActorClients::ActorClients(Runtime& runtime, Owner& owner, CallTable& calls, UntakenArguments& untaken)
    : ActorHome({runtime, owner, calls, untaken}),
      runtime_(runtime),
      owner_(owner),
      counts_(runtime, owner.holds(), [this](ActorId actor) -> HeldHandle* {
        auto found = clients_.find(actor);
        return found == clients_.end() ? nullptr : &found->second->held();
      }) {}

// ----------------------------------------------------------------------------------------------------------- the table

detail::Ptr<ActorClient> ActorClients::client(wire::HandleDesc desc) {
  ActorClient*& known = clients_[desc.actor];
  if (known && known->try_retain()) return detail::Ptr<ActorClient>::adopt(known);
  const ProcessId host = desc.host;
  known = new ActorClient(*this, std::move(desc));
  const detail::Ptr<ActorClient> made(known);
  if (host != ProcessId{}) made->found_direct(host);
  return made;
}

detail::Ptr<ActorClient> ActorClients::find(ActorId actor) {
  auto found = clients_.find(actor);
  if (found == clients_.end() || !found->second->try_retain()) return {};
  return detail::Ptr<ActorClient>::adopt(found->second);
}

void ActorClients::drop(ActorClient& client) noexcept {
  auto drop = [this, &client] {
    CoreLock lock(runtime_);
    dropped(client);
    delete &client;
  };
  if (runtime_.lock_held()) runtime_.defer(drop);
  else drop();
}

void ActorClients::dropped(ActorClient& client) {
  client.held().release(owner_.holds());  // this process does not hold it (OH-1)
  auto found = clients_.find(client.id());
  if (found == clients_.end() || found->second != &client) return;  // a new client has taken its place, and its count
  clients_.erase(found);
  if (!client.life().dead()) counts_.drop(client.id());
}

template <class Wanted> ActorClients::Retained ActorClients::retain(Wanted wanted) {
  Retained all;
  for (auto& [id, client] : clients_)
    if (wanted(*client) && client->try_retain()) all.push_back(detail::Ptr<ActorClient>::adopt(client));
  return all;
}

// ------------------------------------------------------------------------------------------------------------- handles

detail::HandlePtr ActorClients::handle(const wire::HandleDesc& desc, std::uint64_t arrival, bool& wait) {
  const detail::Ptr<ActorClient> known = client(desc);
  wait = counts_.hold(desc.actor, known->held(), arrival);
  return detail::HandlePtr(known.get());
}

/// The head counts this process as a holder since it answered; here that is said to itself at once, for a drop right
/// after it must not cancel it out.
detail::HandlePtr ActorClients::held_by_head(const wire::HandleDesc& desc) {
  bool wait = false;
  detail::HandlePtr found = handle(desc, 0, wait);
  counts_.flush();
  return found;
}

void ActorClients::give_up(ActorClient& client, DeathCause cause, const ErrorPtr& why) {
  if (client.held_back()) counts_.drop(client.id());  // the head waits for it
  client.give_up(cause, why);
}

void ActorClients::kill(const detail::HandlePtr& handle, bool restart) {
  {
    CoreLock lock(runtime_);
    if (ActorClient& client = client_of(handle); client.held_back()) {  // CAC-10
      if (!restart) give_up(client, DeathCause::kKilled, make_error<ActorDiedError>("it was killed by kill()"));
      return;
    }
  }
  struct Asked {
    std::optional<Result<wire::Empty>> reply;
    exec::Waiter* waiter = nullptr;
  };
  const auto asked = std::make_shared<Asked>();
  exec::Waiter waiter(runtime_);
  struct Unlist {
    Runtime& runtime;
    Asked& asked;
    ~Unlist() {
      CoreLock lock(runtime);
      asked.waiter = nullptr;
    }
  } unlist{runtime_, *asked};
  WaitScope scope(runtime_, waiter);
  ActorClient& client = client_of(handle);
  {
    CoreLock lock(runtime_);
    if (client.life().dead()) return;
    wire::KillActor request{client.id(), restart, client.home()};
    counts_.flush();  // a handle that this actor gave us must be counted before its own count goes
    asked->waiter = &waiter;
    runtime_.requests().send<wire::Empty>(kHead, wire::Method::kKillActor, request, [asked](Result<wire::Empty> reply) {
      asked->reply.emplace(std::move(reply));
      if (asked->waiter) asked->waiter->notify();
    });
  }
  const exec::Deadline deadline = exec::deadline_after(kActorAnswerTimeout);
  for (bool in_time = true;;) {
    {
      CoreLock lock(runtime_);
      if (asked->reply) {
        if (!asked->reply->ok()) asked->reply->error().raise();
        return client.heard_dead("it was killed by kill()");
      }
      if (!in_time && exec::Deadline::clock::now() >= deadline)
        throw GetTimeoutError("kill: the head did not answer: the actor " + to_string(client.id()) + " may live on");
      scope.check();  // the head was asked already, whatever interrupts the caller
    }
    in_time = scope.wait(deadline);
  }
}

// ---------------------------------------------------------------------------------------------------------------- ends

void ActorClients::on_moved(const wire::ActorLocation& word) {
  if (const detail::Ptr<ActorClient> client = find(word.actor)) client->moved(word);
}

void ActorClients::process_died(const wire::ProcessDied& died, const net::BegunCalls& begun) {
  for (auto& client : retain([&](const ActorClient& one) { return one.life().process() == died.process; }))
    client->process_died(begun, make_error<ActorDiedError>(died.reason.empty() ? std::string("its process died")
                                                                               : "its process died: " + died.reason));
}

void ActorClients::node_died(std::uint32_t node, const ErrorPtr& error) {
  for (auto& client : retain([&](const ActorClient& one) { return one.life().process().node == node; }))
    if (!client->life().process_dead())
      client->process_died(net::BegunCalls::all(), make_error<ActorDiedError>(error->message()));
}

void ActorClients::clear(const ErrorPtr& why) {
  for (auto& client : retain([](const ActorClient&) { return true; })) client->clear(why);
}

}  // namespace troupe::worker
