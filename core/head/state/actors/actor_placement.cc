#include "core/head/state/actors/actor_placement.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/backoff.h"

namespace troupe::head {
namespace {

constexpr std::size_t kWarnedMax = 10'000;

sched::Request request_of(const wire::ActorSpec& spec) {
  return {.resources = sched::ResourceSet::from(spec.resources, sched::kActorCpus),
          .scheduling = spec.scheduling,
          .labels = spec.labels,
          .bytes_by_node = {}};
}

/// Equal for actors that wait for the same thing: see PlacementQueue.
std::string demand_text(const sched::Request& request, const sched::Asker& asker) {
  std::string text = request.resources.to_string() + "@" + std::to_string(asker.here) + "/" +
                     std::to_string(request.scheduling.index());
  if (const auto* affinity = std::get_if<NodeAffinity>(&request.scheduling))
    text += affinity->node_id + (affinity->soft ? "?" : "!");
  for (const auto& [key, pattern] : request.labels.match)
    text += "/" + std::to_string(key.size()) + key + "=" + pattern;
  return text;
}

}  // namespace

sched::Asker ActorPlacement::asker_of(const wire::ActorSpec& spec) const {
  return {.here = membership_.alive(spec.creator.node) ? spec.creator.node : 0, .last_spread = last_spread_};
}

sched::Decision ActorPlacement::decide(const wire::ActorSpec& spec, const Nodes& avoid) const {
  const sched::Request request = request_of(spec);
  if (!avoid.empty()) {
    sched::ClusterView others = membership_.view();
    for (std::uint32_t node : avoid) others.remove(node);
    sched::Decision elsewhere = sched::decide(others, request, asker_of(spec));
    if (elsewhere.node != 0) return elsewhere;
  }
  return sched::decide(membership_.view(), request, asker_of(spec));
}

std::uint32_t ActorPlacement::claim(Time now, const wire::ActorSpec& spec,
                                    const std::map<std::uint32_t, sched::ResourceSet>& held,
                                    const Nodes& avoid) const {
  const sched::Request request = request_of(spec);
  std::vector<std::pair<std::uint32_t, sched::ResourceSet>> rooms;
  for (const sched::NodeView& node : membership_.view().nodes()) {
    auto refused = refusals_.find(node.node);
    if (refused != refusals_.end() && now < refused->second.until) continue;
    sched::ResourceSet room = node.total;
    if (auto at = held.find(node.node); at != held.end()) room.subtract(at->second);
    if (request.resources.fits(room)) rooms.emplace_back(node.node, std::move(room));
  }
  if (rooms.empty()) return 0;  // before the view is copied: this is asked for each demand at each report of a load
  sched::ClusterView without_tasks = membership_.view();
  for (auto& [node, room] : rooms) without_tasks.set_load(node, std::move(room), 0);
  if (!avoid.empty()) {
    sched::ClusterView others = without_tasks;
    for (std::uint32_t node : avoid) others.remove(node);
    if (const std::uint32_t elsewhere = sched::decide(others, request, asker_of(spec)).node) return elsewhere;
  }
  return sched::decide(without_tasks, request, asker_of(spec)).node;
}

Duration ActorPlacement::claim_refused(Time now, std::uint32_t node, double chance) {
  std::erase_if(refusals_, [&](const auto& one) { return !membership_.alive(one.first); });
  Refusals& refusals = refusals_[node];
  if (now < refusals.until) return refusals.until - now;  // it has refused several at once
  const Duration pause = backoff_delay(kClaimAgain, std::min(refusals.count++, 16u), chance);
  refusals.until = now + pause;
  return pause;
}

void ActorPlacement::wait(const wire::ActorSpec& spec) {
  queue_.push(demand_text(request_of(spec), asker_of(spec)), spec.id);
}

void ActorPlacement::pass(const std::function<Attempt(ActorId)>& attempt) {
  again_ = true;
  if (passing_) return;  // an actor's end during a pass lets others in: the loop below comes round again
  passing_ = true;
  while (std::exchange(again_, false)) queue_.pass(attempt);
  passing_ = false;
}

void ActorPlacement::placed(const wire::ActorSpec& spec, std::uint32_t node) {
  membership_.debit(node, request_of(spec).resources);
  if (std::holds_alternative<Spread>(spec.scheduling)) last_spread_ = node;
}

Duration ActorPlacement::warn_after(const wire::ActorSpec& spec) const {
  const sched::ResourceSet need = request_of(spec).resources;
  const auto& nodes = membership_.view().nodes();
  bool large_enough =
      std::any_of(nodes.begin(), nodes.end(), [&](const sched::NodeView& node) { return need.fits(node.total); });
  return large_enough ? kWarnBusy : kWarnTooLarge;
}

bool ActorPlacement::mention(Time now, const std::string& what) {
  auto [at, fresh] = warned_.try_emplace(what, now);
  if (!fresh && now - at->second < kWarnAgain) return false;
  at->second = now;
  if (warned_.size() > kWarnedMax) warned_.clear();
  return true;
}

bool ActorPlacement::mention_failures(Time now, JobId job, std::uint32_t node) {
  return mention(now, "job " + std::to_string(job) + " fails on " + std::to_string(node));
}

std::optional<std::string> ActorPlacement::why_waiting(Time now, const wire::ActorSpec& spec) {
  const sched::Request request = request_of(spec);
  const sched::Asker asker = asker_of(spec);
  if (!mention(now, demand_text(request, asker))) return std::nullopt;
  sched::Decision decision = sched::decide(membership_.view(), request, asker);
  if (!decision.reason.empty()) return std::move(decision.reason);
  if (membership_.view().nodes().empty()) return "the cluster has no node yet";
  return "no node that may run it has " + request.resources.to_string() + " free now; it waits until one has";
}

}  // namespace troupe::head
