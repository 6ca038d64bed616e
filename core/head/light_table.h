// Light actors that were made directly in a host process and told to the head afterwards, in batches: alive or gone, no
// restarts, no names. They come by the hundred thousand, so a record is 24 bytes beside its key; class names are interned.
//
// Invariants
//   LT-1  Every actor in the table is in the list of its host, and of no other; a host that died has no list.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/ids.h"

namespace troupe::head {

struct LightActor {
  ProcessId host;
  JobId job = 0;
  std::uint32_t kind = 0;   // index of the class name
  bool released = false;    // its host was told that the last handle is gone
};

class LightTable {
 public:
  /// False when it is known already.
  bool add(ActorId actor, ProcessId host, JobId job, std::uint32_t kind);
  std::uint32_t kind_of(const std::string& class_name);
  LightActor* find(ActorId actor);
  const LightActor* find(ActorId actor) const;
  const std::string& class_name(const LightActor& actor) const { return kinds_[actor.kind]; }
  void remove(ActorId actor);
  /// Those that live in this process, in the order of their ids.
  std::vector<ActorId> in_host(ProcessId host) const;
  std::vector<ProcessId> hosts_on(std::uint32_t node) const;
  std::size_t size() const { return actors_.size(); }
  std::vector<ActorId> all() const;

 private:
  std::unordered_map<ActorId, LightActor, IdHash> actors_;
  std::unordered_map<ProcessId, std::unordered_set<ActorId, IdHash>, IdHash> by_host_;
  std::vector<std::string> kinds_;
};

}  // namespace troupe::head
