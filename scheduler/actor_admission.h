// ActorAdmission: which actors hold resources of this node, and which wait for some. Pure.
//
//   wait --> waits, what it needs is kept back --options.wait--> waits, nothing is kept
//                        |                                              |
//                        `--fits--> holds --gone--> free                `--fits--> holds
//                        `--gone--> forgotten                           `--gone--> forgotten
//                        `--options.wait, and other actors have it      `--wait_for_tasks, or other actors have it
//                             --> given up                                   --> given up
//   Both times count from wait().
//
// First come, first served; one that waits and does not fit holds up those behind it only by what is kept back for it.
//
// Thread rule: one thread at a time. Time is given with each call.
//
// Invariants
//   ADM-1  What other actors hold is not kept back for anybody: only tasks can make way.
//   ADM-2  An actor is admitted or given up once, or is gone first; what it holds is given back once.
//   ADM-3  next_deadline lies behind the time of the last give_up.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "scheduler/local_resources.h"

namespace troupe::sched {

// ---- effects
struct ActorAdmitted { ActorId actor; std::int32_t restarts = 0; std::vector<int> gpu_ids; };
struct ActorNotAdmitted { ActorId actor; std::int32_t restarts = 0; std::string reason; };

class ActorAdmission {
 public:
  struct Options {
    std::uint32_t node = 0;  ///< for the reason of ActorNotAdmitted
    Duration wait{};
    Duration wait_for_tasks{};  ///< at least `wait`
  };
  /// `resources` outlives it.
  ActorAdmission(LocalResources& resources, Options options) : resources_(resources), options_(options) {}

  /// Once for each life of an actor.
  void wait(ActorId actor, std::int32_t restarts, const ResourceSet& need, TimePoint now);
  /// Gives back what it holds, or forgets that it waits. Nothing happens when it is unknown.
  void gone(ActorId actor, std::int32_t restarts);
  /// Those that there is room for now.
  std::vector<ActorAdmitted> admit();
  /// Those that have waited for long enough.
  std::vector<ActorNotAdmitted> give_up(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  std::size_t waiting() const { return waits_.size(); }
  /// What those that wait keep from tasks.
  ResourceSet kept_back() const;
  ResourceSet held() const;
  /// Whether one that waits, and could have its place, lacks something of these.
  bool one_lacks(const ResourceSet& amounts) const;
  /// Whether there would be room were it not for tasks.
  bool leave_room_for(const ResourceSet& need) const;

 private:
  struct Wait {
    ActorId actor;
    std::int32_t restarts = 0;
    ResourceSet need;
    TimePoint since{};
    bool keeps_back = true;
  };
  bool waits_on(const Wait& wait, TimePoint now) const;

  LocalResources& resources_;
  Options options_;
  std::map<std::pair<ActorId, std::int32_t>, Allocation> holds_;
  std::deque<Wait> waits_;
};

}  // namespace troupe::sched
