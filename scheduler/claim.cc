#include "scheduler/claim.h"

namespace troupe::sched {
namespace {

/// Of the nodes with a larger number than `last`.
std::uint32_t node_beyond(const ClusterView& view, const Request& request, const Asker& asker, std::uint32_t last) {
  ClusterView without_tasks = view;
  for (const NodeView& node : view.nodes())
    if (node.node > last && node.node != asker.here) without_tasks.set_load(node.node, node.total, 0);
  const Decision decision = decide(without_tasks, request, asker);
  return decision.kind == Decision::Kind::kNode ? decision.node : 0;
}

}  // namespace

std::uint32_t node_to_claim(const ClusterView& view, const Request& request, const Asker& asker, std::uint32_t last) {
  const std::uint32_t next = last == 0 ? 0 : node_beyond(view, request, asker, last);
  return next != 0 ? next : node_beyond(view, request, asker, 0);
}

}  // namespace troupe::sched
