// What a job leaves behind when it ends, and until when: detached actors, what was created from a process that hosts
// such an actor, and so on.
//
//   leave ----> OUTLIVED --- the last of its actors is dead: last_died() is true ----> forgotten
//
// Pure and of one thread. Looks at the tables of actors, changes nothing there.
//
// Invariants
//   JS-1  An actor stays when it is detached, or was created by a process that hosts one that stays, and it was not
//         killed.
//   JS-2  last_died() is true once a job, at the death of the last actor that the job left behind: the daemons keep
//         an ended job's launcher and program only for these.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/head/state/actors/actor_table.h"
#include "core/head/state/actors/light_table.h"

namespace troupe::head {

class JobSurvivors {
 public:
  struct Staying {
    std::vector<ActorId> actors;       // ascending
    std::vector<ProcessId> processes;  // ascending: those that host one of them
    /// Nodes where a light actor that stays is starting, in a host that is not known yet.
    std::set<std::uint32_t> unsure;
    bool stays(ActorId actor) const;
    bool may_stay(ProcessId process) const;
  };

  JobSurvivors(const ActorTable& actors, const LightTable& light) : actors_(actors), light_(light) {}

  Staying of(JobId job) const;
  /// The job has ended, and these are left of it.
  void leave(JobId job, const Staying& staying);
  /// An actor of this job is dead, and in no table any more.
  bool last_died(JobId job, ActorId dead);

 private:
  const ActorTable& actors_;
  const LightTable& light_;
  // ended jobs with actors left, and one that lives: the deaths of the others need no look at the tables
  std::map<JobId, ActorId> outlived_;
};

}  // namespace troupe::head
