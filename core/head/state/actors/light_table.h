// Light actors that were made directly in a host process and told to the head afterwards, in batches: alive or gone, no
// restarts, no names. They come by the hundred thousand, so the table is flat, a record is 24 bytes beside its key,
// class names are interned, and what is asked seldom (who lives in a host that died) is found by a walk over all.
//
// Invariants
//   LT-1  hosted(process) is the number of actors in the table whose host it is.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"

namespace troupe::head {

struct LightActor {
  ProcessId host;
  JobId job = 0;
  std::uint32_t kind = 0;   // index of the class name
  bool released = false;    // its host was told that the last handle is gone
  bool heard = true;        // its host has told of it; else it is known by others' words
};

class LightTable {
 public:
  /// False when it is known already.
  bool add(ActorId actor, ProcessId host, JobId job, std::uint32_t kind, bool heard = true);
  std::uint32_t kind_of(const std::string& class_name);
  LightActor* find(ActorId actor);
  const LightActor* find(ActorId actor) const;
  const std::string& class_name(const LightActor& actor) const { return kinds_[actor.kind]; }
  void remove(ActorId actor);
  std::size_t hosted(ProcessId host) const;
  /// Those that live in this process, in the order of their ids. A walk over all.
  std::vector<ActorId> in_host(ProcessId host) const;
  std::vector<ProcessId> hosts_on(std::uint32_t node) const;
  std::size_t size() const { return actors_.size(); }
  std::vector<ActorId> all() const;

 private:
  boost::unordered_flat_map<ActorId, LightActor, IdHash> actors_;
  boost::unordered_flat_map<ProcessId, std::size_t, IdHash> hosted_;
  std::vector<std::string> kinds_;
};

}  // namespace troupe::head
