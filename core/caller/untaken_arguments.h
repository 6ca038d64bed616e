// UntakenArguments: the refs and handles that the creations of this process name. They are held here until the actor
// was constructed, whether anybody here still has its handle or not: the head holds the spec, and no ref.
//
// Thread rule: lock held.
#pragma once
#include <map>
#include <memory>

#include "core/owner/holds.h"

namespace troupe::worker {

class UntakenArguments {
 public:
  void keep(ActorId actor, std::shared_ptr<Outgoing> named) { named_[actor] = std::move(named); }
  /// It was constructed, or will never be.
  void taken(ActorId actor) { named_.erase(actor); }
  std::size_t size() const { return named_.size(); }
  void clear() { named_.clear(); }

 private:
  std::map<ActorId, std::shared_ptr<Outgoing>> named_;
};

}  // namespace troupe::worker
