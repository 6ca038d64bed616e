// CV-1 .. CV-3: deltas, guesses between them.
#include "scheduler/cluster_view.h"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

wire::NodeInfo info(std::uint32_t node, double cpus, double available) {
  wire::NodeInfo result;
  result.node = node;
  result.node_id = "n" + std::to_string(node);
  result.resources = {{"CPU", cpus}};
  result.available = {{"CPU", available}};
  return result;
}
wire::ClusterView delta(std::uint64_t version, std::vector<wire::NodeInfo> nodes, std::vector<std::uint32_t> dead = {},
                        bool full = false) {
  wire::ClusterView view;
  view.version = version;
  view.full = full;
  view.nodes = std::move(nodes);
  view.dead = std::move(dead);
  return view;
}
ResourceSet cpus(double n) { return ResourceSet::from({.cpus = n}, 0); }

TEST(ClusterView, KeepsNodesSortedWhateverTheirOrderOfArrival) {
  ClusterView view;
  EXPECT_TRUE(view.apply(delta(1, {info(5, 1, 1), info(2, 1, 1)})));
  EXPECT_TRUE(view.apply(delta(2, {info(3, 1, 1)})));
  ASSERT_EQ(view.nodes().size(), 3u);
  EXPECT_EQ(view.nodes()[0].node, 2u);
  EXPECT_EQ(view.nodes()[1].node, 3u);
  EXPECT_EQ(view.find_id("n5")->node, 5u);
  EXPECT_EQ(view.find(4), nullptr);
}

TEST(ClusterView, AStaleDeltaChangesNothing) {
  ClusterView view;
  view.apply(delta(5, {info(1, 4, 2)}));
  EXPECT_FALSE(view.apply(delta(5, {info(1, 4, 4)})));
  EXPECT_FALSE(view.apply(delta(4, {}, {1})));
  EXPECT_EQ(view.find(1)->available.cpu, 2 * kUnit) << "CV-2";
}

TEST(ClusterView, AFullViewReplacesEverything) {
  ClusterView view;
  view.apply(delta(5, {info(1, 4, 2), info(2, 4, 2)}));
  EXPECT_TRUE(view.apply(delta(5, {info(2, 4, 1)}, {}, true)));
  EXPECT_EQ(view.find(1), nullptr);
  EXPECT_EQ(view.find(2)->available.cpu, kUnit);
}

TEST(ClusterView, DeadNodesLeave) {
  ClusterView view;
  view.apply(delta(1, {info(1, 1, 1), info(2, 1, 1)}));
  view.apply(delta(2, {}, {1}));
  ASSERT_EQ(view.nodes().size(), 1u);
  EXPECT_EQ(view.version(), 2u);
}

TEST(ClusterView, AGuessLastsUntilTheNextDelta) {
  ClusterView view;
  view.apply(delta(1, {info(1, 4, 4)}));
  view.debit(1, cpus(3));
  EXPECT_EQ(view.find(1)->available.cpu, kUnit);
  view.apply(delta(2, {info(1, 4, 3)}));
  EXPECT_EQ(view.find(1)->available.cpu, 3 * kUnit);
  view.debit(9, cpus(1));  // unknown: no effect
}

}  // namespace
}  // namespace troupe::sched
