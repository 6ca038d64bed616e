// Actors that wait for a place, by class: what has equal demands waits in one line, so that a change of the cluster
// costs one question a class and not one an actor.
//
// Invariants
//   PQ-1  Of all classes that fit, the actor that waits longest is placed first; inside a class, first come, first
//         placed.
//   PQ-2  One pass asks about a class until it does not fit, and not again before the next pass.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "core/base/ids.h"

namespace troupe::head {

class PlacementQueue {
 public:
  enum class Attempt { kPlaced, kNoRoom };

  void push(const std::string& demand, ActorId actor) { classes_[demand].push_back({actor, next_++}); }
  bool empty() const { return classes_.empty(); }

  /// Calls try_place(actor) -> Attempt, oldest first; an actor that does not wait any more answers kPlaced.
  template <class TryPlace> void pass(TryPlace&& try_place) {
    std::map<std::uint64_t, std::string> fronts;  // age of the oldest -> class
    for (const auto& [demand, line] : classes_) fronts.emplace(line.front().age, demand);
    while (!fronts.empty()) {
      auto [age, demand] = *fronts.begin();
      fronts.erase(fronts.begin());
      auto& line = classes_.at(demand);
      const ActorId actor = line.front().actor;
      line.pop_front();  // first: placing may push others into this very queue
      if (try_place(actor) == Attempt::kNoRoom) {
        classes_[demand].push_front({actor, age});
        continue;
      }
      if (line.empty()) classes_.erase(demand);
      else fronts.emplace(line.front().age, demand);
    }
  }

 private:
  struct Waiting { ActorId actor; std::uint64_t age = 0; };
  std::map<std::string, std::deque<Waiting>> classes_;
  std::uint64_t next_ = 0;
};

}  // namespace troupe::head
