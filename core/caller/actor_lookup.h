// ActorLookup: finds actors by name: a question to the head, which counts the handle that it answers with (CAC-4).
//
// Thread rule: ask with the lock held; find takes it itself, and waits.
#pragma once
#include <functional>

#include "core/caller/actor_clients.h"

namespace troupe::worker {

class ActorLookup {
 public:
  using Found = std::function<void(Result<detail::HandlePtr>)>;

  ActorLookup(Runtime& runtime, ActorClients& clients) : runtime_(runtime), clients_(clients) {}

  /// The actor of that name; InvalidArgumentError when it is of another class.
  void ask(wire::NamedActor name, const std::string& class_name, Found found);
  Result<detail::HandlePtr> find(const wire::NamedActor& name, const std::string& class_name);

 private:
  Runtime& runtime_;
  ActorClients& clients_;
};

}  // namespace troupe::worker
