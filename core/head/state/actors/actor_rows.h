// What `troupe list actors` shows of the head's actors: those of the tables, ascending by id, then the dead, oldest
// first. Only reads.
#pragma once
#include "core/head/state/actors/actor_table.h"
#include "core/head/state/actors/graveyard.h"
#include "core/head/state/actors/light_table.h"
#include "core/head/state/jobs.h"
#include "core/head/state/membership.h"

namespace troupe::head {

class ActorRows {
 public:
  struct Sources {
    const ActorTable& actors;
    const LightTable& light;
    const Graveyard& dead;
    const Membership& membership;
    const Jobs& jobs;
  };

  explicit ActorRows(Sources sources) : sources_(sources) {}

  /// Those of one job, or all (0).
  wire::StateReply of_job(JobId job) const;

 private:
  Sources sources_;
};

}  // namespace troupe::head
