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
  EXPECT_EQ(claim.wait(), 3s);
  claim.progressed();
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
  const ClusterView view = nodes_of({1, 2, 1, 4}, 0);
  const Request request{ResourceSet::from_map({{"CPU", 2}}), {}, {}, {}};
  const Asker asker{1, 0};
  EXPECT_EQ(node_to_claim(view, request, asker, 0), 4u);  // the one that would be loaded least
  EXPECT_EQ(node_to_claim(view, request, asker, 2), 4u);
  const std::uint32_t after_the_last = node_to_claim(view, request, asker, 4);
  EXPECT_TRUE(after_the_last == 2u || after_the_last == 4u) << after_the_last;
}

TEST(Claim, NoneWhereNoOtherNodeWouldDo) {
  const Request large{ResourceSet::from_map({{"CPU", 3}}), {}, {}, {}};
  EXPECT_EQ(node_to_claim(nodes_of({4, 2}, 0), large, {1, 0}, 0), 0u);
}

}  // namespace
}  // namespace troupe::sched
