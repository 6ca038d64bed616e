#include "collective/group/formation.h"

#include <algorithm>

#include <fmt/format.h>

#include "collective/base/backend_name.h"

namespace troupe::collective {
namespace {

/// By node, in the order of their lowest ranks.
std::vector<MemoryPlan> nodes_of(const std::vector<GroupMember>& members) {
  std::vector<MemoryPlan> nodes;
  for (std::size_t r = 0; r < members.size(); ++r) {
    auto found = std::ranges::find(nodes, members[r].node, &MemoryPlan::node);
    if (found == nodes.end()) found = nodes.insert(found, {members[r].node, {}});
    found->ranks.push_back(int(r));
  }
  return nodes;
}

}  // namespace

bool nccl_beside(const std::vector<GroupMember>& members, Backend asked) {
  return asked == Backend::kAuto && std::ranges::all_of(members, &GroupMember::gpu);
}

Result<FormationPlan> plan_formation(const std::vector<GroupMember>& members, Backend asked) {
  if (asked == Backend::kNccl) return plan_formation(members, Backend::kAuto);  // FM-3
  std::vector<MemoryPlan> nodes = nodes_of(members);
  const bool shared = std::ranges::any_of(nodes, [](const MemoryPlan& node) { return node.ranks.size() > 1; });
  FormationPlan plan;
  plan.backend = asked != Backend::kAuto ? asked
                 : nodes.size() == 1     ? Backend::kShm
                 : shared                ? Backend::kHier
                                         : Backend::kTcp;
  switch (plan.backend) {
    case Backend::kShm:
      if (nodes.size() > 1) {
        const int rank = nodes[1].ranks.front();
        return InvalidArgumentError(
            fmt::format("shared memory (shm) was asked for, but rank {} (actor {}) is on node {} and rank 0 on node "
                        "{}: auto, tcp and hier go over several nodes",
                        rank, members[std::size_t(rank)].actor, nodes[1].node, nodes[0].node));
      }
      plan.memories = std::move(nodes);
      return plan;
    case Backend::kTcp:
    case Backend::kHier:
      for (std::size_t r = 0; r < members.size(); ++r)
        if (members[r].data_address.empty())
          return InvalidArgumentError(
              fmt::format("{} was asked for, but rank {} (actor {}) is on node {}, which has no data port",
                          backend_name(plan.backend), r, members[r].actor, members[r].node));
      if (plan.backend == Backend::kHier) {
        std::erase_if(nodes, [](const MemoryPlan& node) { return node.ranks.size() < 2; });
        plan.memories = std::move(nodes);
      }
      return plan;
    case Backend::kNccl:
    case Backend::kAuto: break;
  }
  return InvalidArgumentError(
      fmt::format("this build has no backend {} for groups of actors: use auto, shm, tcp, hier or nccl",
                  backend_name(plan.backend)));
}

Result<Backend> backend_named(const std::string& name) {
  if (name.empty()) return Backend::kAuto;
  for (Backend backend : {Backend::kAuto, Backend::kShm, Backend::kTcp, Backend::kHier, Backend::kNccl})
    if (name == backend_name(backend)) return backend;
  return InvalidArgumentError(
      fmt::format("TROUPE_COLLECTIVE_BACKEND={}: known are auto, shm, tcp, hier and nccl", name));
}

}  // namespace troupe::collective
