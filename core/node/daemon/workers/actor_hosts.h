// ActorHosts: which processes host light actors, and how many each. Pure.
//
// Thread rule: one thread at a time.
//
// Invariants
//   AH-1  A host's count is the number of light actors that were added and have not gone, whatever the order of the
//         events.
#pragma once
#include <cstddef>
#include <map>
#include <vector>

#include "core/base/ids.h"

namespace troupe::node {

/// One life of an actor: its id and how often it was restarted.
using ActorKey = std::pair<ActorId, std::int32_t>;

class ActorHosts {
 public:
  void add(const ActorKey& actor, ProcessId host);
  /// True when it was there.
  bool remove(const ActorKey& actor);
  /// All of a dead host.
  std::vector<ActorKey> remove_host(ProcessId host);
  std::size_t count(ProcessId host) const;

 private:
  std::map<ActorKey, ProcessId> by_actor_;
  std::map<ProcessId, std::size_t> counts_;
};

}  // namespace troupe::node
