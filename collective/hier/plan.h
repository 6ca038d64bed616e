// HierPlan: what travels where in a group that spans nodes: between nodes in messages (a Schedule over all ranks),
// within a node in memory (parcels). Pure functions of who is on which node; a backend carries them out, tests carry
// them out on simulated ranks.
//
//   all_gather      a rank sends its part once to each other node, to its *stand-in* there: the rank with its place in
//                   the node, modulo the node's size. Each rank then hands what it has, its own part and what it stood
//                   in for, to the node.
//   gather, scatter, all_to_all     each pair directly: by message between nodes, by parcel within one
//
// Elements, half-open ranges, memories: as in schedule.h.
//
// Invariants
//   HP-1  Every part comes to every rank that wants it exactly once; to a node of an all_gather as well.
//   HP-2  A plan has at most one message from one rank to another, of a size that both know.
//   HP-3  All ranks of a node have the same parcels in the same order; only who gives one knows where it lies, only who
//         wants it where it goes.
// Thread rule: pure.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "collective/schedule/schedule.h"

namespace troupe::collective {

/// Who is where. Nodes are numbered by their first rank, places in a node by rank; ranks of a node need not follow each
/// other.
class NodeMap {
 public:
  /// `nodes`: any number that stands for the node of each rank.
  NodeMap(const std::vector<int>& nodes, int rank);

  int rank() const { return rank_; }
  int ranks() const { return int(node_.size()); }
  int nodes() const { return int(members_.size()); }
  int node() const { return node_of(rank_); }
  int node_of(int rank) const { return node_[std::size_t(rank)]; }
  int place_of(int rank) const { return place_[std::size_t(rank)]; }
  bool together(int a, int b) const { return node_of(a) == node_of(b); }
  const std::vector<int>& members(int node) const { return members_[std::size_t(node)]; }
  /// The ranks of this rank's node, and this rank's place among them.
  const std::vector<int>& here() const { return members(node()); }
  int place() const { return place_of(rank_); }
  /// Nodes of equal size, with more than one rank each.
  bool regular() const;
  /// The rank of `node` that takes what `giver`, of another node, gives to all of that node.
  int stand_in(int node, int giver) const;
  /// The first rank of each node; where `root` is, that rank instead (-1: nobody's).
  std::vector<int> leaders(int root = -1) const;
  /// The ranks with this rank's place, of a regular map.
  std::vector<int> column() const;

 private:
  int rank_;
  std::vector<int> node_, place_;
  std::vector<std::vector<int>> members_;
};

/// What one rank gives to others of its node. `from` has the right size on all of them, and its place on the giver.
struct Parcel {
  Range from{};
  std::size_t to = 0;   ///< in the data of who wants it
  bool wanted = false;  ///< by this rank
};

struct MovePlan {
  Schedule across;                          ///< sends, receives, and the copy of what a rank gives to itself
  std::vector<std::vector<Parcel>> inside;  ///< by the giver's place; after `across`
};

/// counts: the parts of all ranks, which lie in the data in rank order.
MovePlan all_gather_plan(const NodeMap& map, const std::vector<std::size_t>& counts);

struct Pairs {
  /// Elements from one rank to another; nothing: these two have no part for each other. Asked for pairs with this rank
  /// in it, and for pairs of this node.
  std::function<std::optional<std::size_t>(int from, int to)> size;
  /// by rank: where the part for it lies in the input, where the part from it goes in the data
  std::vector<std::size_t> in_at, out_at;
};
MovePlan pairs_plan(const NodeMap& map, const Pairs& pairs);

/// Where parts of these sizes begin when they lie one behind the other.
std::vector<std::size_t> offsets_of(const std::vector<std::size_t>& sizes);

}  // namespace troupe::collective
