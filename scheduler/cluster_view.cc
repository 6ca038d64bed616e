#include "scheduler/cluster_view.h"

#include <algorithm>

namespace troupe::sched {
namespace {
auto position(auto& nodes, std::uint32_t node) {
  return std::lower_bound(nodes.begin(), nodes.end(), node,
                          [](const NodeView& view, std::uint32_t number) { return view.node < number; });
}
}  // namespace

NodeView NodeView::from(const wire::NodeInfo& info) {
  NodeView view;
  view.node = info.node;
  view.node_id = info.node_id;
  view.total = ResourceSet::from_map(info.resources);
  view.available = ResourceSet::from_map(info.available);
  view.available.gpu -= to_fixed(info.gpu_pieces);
  view.labels = info.labels;
  view.address = info.address;
  view.data_address = info.data_address;
  view.is_head = info.is_head;
  view.pending = info.pending;
  return view;
}

const NodeView* ClusterView::find(std::uint32_t node) const {
  auto at = position(nodes_, node);
  return at != nodes_.end() && at->node == node ? &*at : nullptr;
}

NodeView* ClusterView::find_mutable(std::uint32_t node) {
  auto at = position(nodes_, node);
  return at != nodes_.end() && at->node == node ? &*at : nullptr;
}

const NodeView* ClusterView::find_id(const std::string& node_id) const {
  auto at = std::find_if(nodes_.begin(), nodes_.end(), [&](const NodeView& view) { return view.node_id == node_id; });
  return at != nodes_.end() ? &*at : nullptr;
}

bool ClusterView::apply(const wire::ClusterView& delta) {
  if (!delta.full && delta.version <= version_) return false;
  if (delta.full) {
    nodes_.clear();
    nodes_.reserve(delta.nodes.size());
  }
  for (const wire::NodeInfo& info : delta.nodes) put(NodeView::from(info));
  for (std::uint32_t node : delta.dead) remove(node);
  version_ = std::max(version_, delta.version);
  return true;
}

void ClusterView::put(NodeView node) {
  auto at = position(nodes_, node.node);
  if (at != nodes_.end() && at->node == node.node) *at = std::move(node);
  else nodes_.insert(at, std::move(node));
}

bool ClusterView::remove(std::uint32_t node) {
  auto at = position(nodes_, node);
  if (at == nodes_.end() || at->node != node) return false;
  nodes_.erase(at);
  return true;
}

bool ClusterView::set_load(std::uint32_t node, ResourceSet available, std::uint64_t pending) {
  NodeView* view = find_mutable(node);
  if (!view) return false;
  view->available = std::move(available);
  view->pending = pending;
  return true;
}

void ClusterView::debit(std::uint32_t node, const ResourceSet& amount) {
  if (NodeView* view = find_mutable(node)) view->available.subtract(amount);
}

}  // namespace troupe::sched
