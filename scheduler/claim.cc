#include "scheduler/claim.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::sched {

std::uint32_t node_to_claim(const ClusterView& view, const Request& request, const Asker& asker, std::uint32_t last) {
  std::vector<NodeView> nodes = view.nodes();
  const std::uint32_t from = last != 0 ? last : asker.here;
  std::ranges::sort(nodes, {}, [&](const NodeView& node) { return std::pair(node.node <= from, node.node); });
  for (const NodeView& node : nodes) {
    if (node.node == asker.here) continue;
    ClusterView without_its_tasks = view;
    without_its_tasks.set_load(node.node, node.total, 0);
    const Decision decision = decide(without_its_tasks, request, asker);
    if (decision.kind == Decision::Kind::kNode && decision.node == node.node) return node.node;
  }
  return 0;
}

}  // namespace troupe::sched
