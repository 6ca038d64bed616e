#include "scheduler/actor_admission.h"

#include <algorithm>

namespace troupe::sched {

void ActorAdmission::wait(ActorId actor, std::int32_t restarts, const ResourceSet& need, TimePoint now) {
  waits_.push_back({actor, restarts, need, now, true});
}

void ActorAdmission::gone(ActorId actor, std::int32_t restarts) {
  std::erase_if(waits_, [&](const Wait& wait) { return wait.actor == actor && wait.restarts == restarts; });
  if (auto it = holds_.find({actor, restarts}); it != holds_.end()) {
    resources_.give_back(it->second, false);
    holds_.erase(it);
  }
}

std::vector<ActorAdmitted> ActorAdmission::admit() {
  std::vector<ActorAdmitted> admitted;
  ResourceSet kept;  // for those before it
  for (auto it = waits_.begin(); it != waits_.end();) {
    ResourceSet room = resources_.available();
    room.subtract(kept);
    std::optional<Allocation> allocation = it->need.fits(room) ? resources_.take(it->need) : std::nullopt;
    if (!allocation) {
      if (it->keeps_back && leave_room_for(it->need)) kept.add(it->need);
      ++it;
      continue;
    }
    admitted.push_back({it->actor, it->restarts, allocation->gpu_ids});
    holds_[{it->actor, it->restarts}] = std::move(*allocation);
    it = waits_.erase(it);
  }
  return admitted;
}

std::vector<ActorNotAdmitted> ActorAdmission::give_up(TimePoint now) {
  for (Wait& wait : waits_) wait.keeps_back = wait.keeps_back && now < wait.since + options_.wait;
  std::vector<ActorNotAdmitted> given_up;
  std::erase_if(waits_, [&](const Wait& wait) {
    if (waits_on(wait, now)) return false;
    given_up.push_back({wait.actor, wait.restarts,
                        "node " + std::to_string(options_.node) + " has " + resources_.at_once().to_string() +
                            " free, the actor needs " + wait.need.to_string()});
    return true;
  });
  return given_up;
}

bool ActorAdmission::waits_on(const Wait& wait, TimePoint now) const {
  return wait.keeps_back || (now < wait.since + options_.wait_for_tasks && leave_room_for(wait.need));
}

std::optional<TimePoint> ActorAdmission::next_deadline() const {
  std::optional<TimePoint> next;
  for (const Wait& wait : waits_) {
    const TimePoint at = wait.since + (wait.keeps_back ? options_.wait : options_.wait_for_tasks);
    if (!next || at < *next) next = at;
  }
  return next;
}

ResourceSet ActorAdmission::kept_back() const {
  ResourceSet kept;
  for (const Wait& wait : waits_)
    if (wait.keeps_back && leave_room_for(wait.need)) kept.add(wait.need);
  return kept;
}

ResourceSet ActorAdmission::held() const {
  ResourceSet held;
  for (const auto& [actor, allocation] : holds_) held.add(allocation.amount);
  return held;
}

bool ActorAdmission::one_lacks(const ResourceSet& amounts) const {
  return std::ranges::any_of(waits_, [&](const Wait& wait) {
    return would_help(amounts, wait.need, resources_.available()) && leave_room_for(wait.need);
  });
}

bool ActorAdmission::leave_room_for(const ResourceSet& need) const {
  ResourceSet room = resources_.total();
  room.subtract(held());
  if (!need.fits(room)) return false;
  if (need.gpu == 0) return true;
  GpuSlots gpus(static_cast<int>((resources_.total().gpu + kUnit - 1) / kUnit));
  for (const auto& [actor, allocation] : holds_) gpus.taken(allocation.gpu_ids, allocation.amount.gpu);
  return gpus.take(need.gpu).has_value();
}

}  // namespace troupe::sched
