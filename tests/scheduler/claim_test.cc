// A request's place in another node's queue, and where it is to be (claim.h).
#include "scheduler/claim.h"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

using namespace std::chrono_literals;

TEST(Claim, CLM1_OneAtATimeForGrowingTimes) {
  const Claim::Options options{.first = 1s, .most = 3s};
  Claim claim;
  EXPECT_FALSE(claim.is_open());
  EXPECT_FALSE(claim.is_at(0));
  claim.open(2, options);
  EXPECT_TRUE(claim.is_at(2));
  EXPECT_EQ(claim.wait(), 1s);
  claim.close_at(3);
  EXPECT_TRUE(claim.is_open());
  claim.close_at(2);
  EXPECT_FALSE(claim.is_open());
  EXPECT_EQ(claim.last(), 2u);
  claim.open(3, options);
  EXPECT_EQ(claim.wait(), 2s);
  claim.open(2, options);
  EXPECT_TRUE(claim.is_at(2));
  EXPECT_FALSE(claim.is_at(3));
  EXPECT_EQ(claim.wait(), 3s);
  claim.progressed();
  EXPECT_EQ(claim.wait(), 3s);  // of the one that is open
  claim.open(2, options);
  EXPECT_EQ(claim.wait(), 1s);
}

ClusterView nodes_of(const std::vector<double>& cpus, double free) {
  ClusterView view;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    NodeView node;
    node.node = static_cast<std::uint32_t>(i + 1);
    node.node_id = "n" + std::to_string(node.node);
    node.total = ResourceSet::from_map({{"CPU", cpus[i]}});
    node.available = ResourceSet::from_map({{"CPU", free}});
    view.put(node);
  }
  return view;
}

TEST(Claim, CLM2_GoesRoundTheNodesThatWouldDo) {
  const Request request{ResourceSet::from_map({{"CPU", 2}}), {}, {}, {}};
  const auto round = [&](const ClusterView& view, std::uint32_t here) {
    std::vector<std::uint32_t> nodes = {node_to_claim(view, request, {here, 0}, 0)};
    while (nodes.size() < 4) nodes.push_back(node_to_claim(view, request, {here, 0}, nodes.back()));
    return nodes;
  };
  using Nodes = std::vector<std::uint32_t>;
  EXPECT_EQ(round(nodes_of({1, 2, 2, 2}, 0), 1), (Nodes{2, 3, 4, 2}));
  EXPECT_EQ(round(nodes_of({1, 2, 1, 4}, 0), 1), (Nodes{2, 4, 2, 4}));
  EXPECT_EQ(round(nodes_of({8, 2, 1, 2}, 0), 3), (Nodes{4, 1, 2, 4}));
  EXPECT_EQ(round(nodes_of({1, 2}, 0), 1), (Nodes{2, 2, 2, 2}));
}

TEST(Claim, NoneWhereNoOtherNodeWouldDo) {
  const Request large{ResourceSet::from_map({{"CPU", 3}}), {}, {}, {}};
  EXPECT_EQ(node_to_claim(nodes_of({4, 2}, 0), large, {1, 0}, 0), 0u);
}

}  // namespace
}  // namespace troupe::sched
