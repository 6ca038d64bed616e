// What one process knows of the cluster's nodes: totals, what is left, labels. The head keeps the first copy and sends
// versioned deltas (wire::ClusterView); daemons apply them. Between two deltas a scheduler debits what it has just sent
// to a node (debit), so that a burst does not all go to the node that was empty a moment ago; the next delta replaces
// that guess.
//
// One thread at a time. find is O(log n), change O(log n) plus a move at insertion (numbers ascend: at the end).
//
// Invariants
//   CV-1  nodes() is sorted by node number, each number once, living nodes only.
//   CV-2  version() never falls; a delta that is not newer changes nothing, unless it is a full view.
//   CV-3  A node that was declared dead never comes back: its number is never given again.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/wire/messages.h"
#include "scheduler/resources.h"

namespace troupe::sched {

struct NodeView {
  std::uint32_t node = 0;
  std::string node_id;
  ResourceSet total, available;                 // available: of GPUs what one request can have (LQ-14)
  std::map<std::string, std::string> labels;
  std::string address, data_address;            // HOST:PORT of control link and data port
  bool is_head = false;
  std::uint64_t pending = 0;                    // requests that wait there

  static NodeView from(const wire::NodeInfo& info);
};

class ClusterView {
 public:
  std::uint64_t version() const { return version_; }
  const std::vector<NodeView>& nodes() const { return nodes_; }
  const NodeView* find(std::uint32_t node) const;
  const NodeView* find_id(const std::string& node_id) const;

  /// Applies a delta; false when it was stale (CV-2).
  bool apply(const wire::ClusterView& delta);

  /// For the head, which makes the versions itself.
  void put(NodeView node);
  bool remove(std::uint32_t node);
  bool set_load(std::uint32_t node, ResourceSet available, std::uint64_t pending);

  /// The guess between two deltas: so much was just sent to that node. Unknown node: no effect.
  void debit(std::uint32_t node, const ResourceSet& amount);

 private:
  NodeView* find_mutable(std::uint32_t node);

  std::vector<NodeView> nodes_;
  std::uint64_t version_ = 0;
};

}  // namespace troupe::sched
