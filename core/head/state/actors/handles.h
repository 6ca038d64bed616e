// Who holds handles of which actor, and who wants to hear of its moves: two relations between processes and actors.
//
// A process holds an actor or not, however many handles it has: the process counts its own and reports the first and
// the last (HandleCounts), so repeating a report is harmless. The creation counts as held by the creator, which is the
// maker of the id. Reports of different processes race with the creation, so both orders must give the same.
//
// Invariants
//   HC-1  holders(actor) is the number of processes that hold it; it is exact for actors that are tracked, and never
//         negative.
//   HC-2  A dead process holds nothing.
//   HC-3  A creator that dropped its handles before the creation was registered holds nothing after it.
//   HC-4  A dead actor is held by nobody: what is kept here is bounded by the handles of living actors.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/ids.h"

namespace troupe::head {

class Holds {
 public:
  /// The actor exists from now on; true when its creator holds it (HC-3).
  bool created(ActorId actor);
  /// True when this was news.
  bool hold(ProcessId holder, ActorId actor);
  bool drop(ProcessId holder, ActorId actor);
  /// Everything that the process held.
  std::vector<ActorId> drop_all(ProcessId holder);
  std::uint32_t holders(ActorId actor) const;
  /// The actor is dead (HC-4). At once where only its maker holds it.
  void forget(ActorId actor);
  bool holds(ProcessId holder, ActorId actor) const;
  std::vector<ProcessId> processes() const;

 private:
  void lower(ActorId actor);
  bool erase(ProcessId holder, ActorId actor);

  boost::unordered_flat_map<ProcessId, boost::unordered_flat_set<ActorId, IdHash>, IdHash> held_;
  boost::unordered_flat_map<ActorId, std::uint32_t, IdHash> counts_;
  // HC-3: ids that their makers dropped before they were created. Bounded: an entry that matters is met within seconds.
  boost::unordered_flat_set<ActorId, IdHash> dropped_early_;
  std::deque<ActorId> dropped_order_;
};

/// A plain relation: processes that subscribed to actors.
class Subscriptions {
 public:
  void add(ProcessId process, ActorId actor);
  void remove(ProcessId process, ActorId actor);
  void remove_process(ProcessId process);
  void remove_actor(ActorId actor);
  const std::vector<ProcessId>& of(ActorId actor) const;
  std::vector<ProcessId> processes() const;

 private:
  std::unordered_map<ActorId, std::vector<ProcessId>, IdHash> by_actor_;
  std::unordered_map<ProcessId, std::unordered_set<ActorId, IdHash>, IdHash> by_process_;
};

}  // namespace troupe::head
