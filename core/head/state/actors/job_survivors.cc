#include "core/head/state/actors/job_survivors.h"

#include <algorithm>

namespace troupe::head {

bool JobSurvivors::Staying::stays(ActorId actor) const {
  return std::binary_search(actors.begin(), actors.end(), actor);
}

bool JobSurvivors::Staying::may_stay(ProcessId process) const {
  return unsure.contains(process.node) || std::binary_search(processes.begin(), processes.end(), process);
}

JobSurvivors::Staying JobSurvivors::of(JobId job) const {
  std::set<ActorId> kept;
  std::set<ProcessId> hosts;
  Staying staying;
  const std::vector<ActorId> actors = actors_.of_job(job);
  std::size_t before;
  do {
    before = kept.size();
    for (ActorId id : actors) {
      const ActorRecord& actor = *actors_.find(id);
      if (actor.told_dead || (actor.scoped() && !hosts.contains(actor.spec.creator))) continue;
      if (!kept.insert(id).second) continue;
      if (actor.process != ProcessId{}) hosts.insert(actor.process);
      if (actor.light() && actor.phase == ActorRecord::Phase::kStarting) staying.unsure.insert(actor.node);
    }
    if (hosts.empty()) continue;
    for (ActorId id : light_.all()) {
      if (hosts.contains(id.maker) && light_.find(id)->job == job && kept.insert(id).second)
        hosts.insert(light_.find(id)->host);
    }
  } while (kept.size() != before);
  staying.actors.assign(kept.begin(), kept.end());
  staying.processes.assign(hosts.begin(), hosts.end());
  return staying;
}

void JobSurvivors::leave(JobId job, const Staying& staying) {
  if (!staying.actors.empty()) outlived_[job] = staying.actors.front();
}

bool JobSurvivors::last_died(JobId job, ActorId dead) {
  auto at = outlived_.find(job);
  if (at == outlived_.end() || at->second != dead) return false;
  if (std::optional<ActorId> other = actors_.any_of(job)) {
    at->second = *other;
    return false;
  }
  for (ActorId id : light_.all()) {
    if (light_.find(id)->job != job) continue;
    at->second = id;
    return false;
  }
  outlived_.erase(at);
  return true;
}

}  // namespace troupe::head
