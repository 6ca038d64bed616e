// Each policy by input and output, and what can never hold.
#include "scheduler/policy.h"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

using Kind = Decision::Kind;

NodeView node(std::uint32_t number, double cpus, double available, std::map<std::string, std::string> labels = {}) {
  NodeView view;
  view.node = number;
  view.node_id = "id" + std::to_string(number);
  view.total = ResourceSet::from({.cpus = cpus}, 0);
  view.available = ResourceSet::from_map({{"CPU", available}});
  view.labels = std::move(labels);
  return view;
}
ClusterView cluster(std::vector<NodeView> nodes) {
  ClusterView view;
  for (NodeView& one : nodes) view.put(std::move(one));
  return view;
}
Request request(double cpus, Scheduling scheduling = Hybrid{}, LabelSelector labels = {}) {
  return {.resources = ResourceSet::from({.cpus = cpus}, 0),
          .scheduling = std::move(scheduling),
          .labels = std::move(labels),
          .bytes_by_node = {}};
}

TEST(Hybrid, PacksHereUntilHalfThenSpreads) {
  ClusterView view = cluster({node(1, 4, 4), node(2, 4, 4)});
  Asker asker{.here = 1};
  EXPECT_EQ(decide(view, request(1), asker).kind, Kind::kHere);
  view.debit(1, request(1).resources);
  EXPECT_EQ(decide(view, request(1), asker).kind, Kind::kHere);  // 2 of 4: 50 %
  view.debit(1, request(1).resources);
  Decision third = decide(view, request(1), asker);
  EXPECT_EQ(third.kind, Kind::kNode);
  EXPECT_EQ(third.node, 2u);
}

TEST(Hybrid, AboveHalfEverywhereTakesTheLeastLoadedAndHereOnTies) {
  Asker asker{.here = 2};
  EXPECT_EQ(decide(cluster({node(1, 4, 1), node(2, 4, 1), node(3, 4, 2)}), request(1), asker).node, 3u);
  EXPECT_EQ(decide(cluster({node(1, 4, 1), node(2, 4, 1), node(3, 4, 1)}), request(1), asker).kind, Kind::kHere);
}

TEST(Hybrid, TheCriticalResourceCounts) {
  NodeView busy = node(1, 8, 8);
  busy.total.gpu = 2 * kUnit;
  busy.available.gpu = kUnit;
  NodeView calm = node(2, 8, 6);
  calm.total.gpu = calm.available.gpu = 4 * kUnit;
  Request wants = request(1);
  wants.resources.gpu = kUnit;
  EXPECT_EQ(decide(cluster({busy, calm}), wants, {.here = 1}).node, 2u);
}

TEST(Hybrid, GoesWhereTheArgumentsAreWhenTheyAreLarge) {
  ClusterView view = cluster({node(1, 4, 4), node(2, 4, 4), node(3, 4, 4)});
  Request wants = request(1);
  wants.bytes_by_node = {{2, 1000}, {3, kLocalityMin}};
  EXPECT_EQ(decide(view, wants, {.here = 1}).node, 3u);
  wants.bytes_by_node = {{3, kLocalityMin - 1}};
  EXPECT_EQ(decide(view, wants, {.here = 1}).kind, Kind::kHere);
  wants.bytes_by_node = {{3, 1 << 20}, {1, 1 << 20}};
  EXPECT_EQ(decide(view, wants, {.here = 1}).kind, Kind::kHere) << "equal bytes: here";
}

TEST(Hybrid, LocalityDoesNotWaitForAFullNode) {
  Request wants = request(1);
  wants.bytes_by_node = {{2, 1 << 30}};
  EXPECT_EQ(decide(cluster({node(1, 4, 4), node(2, 4, 0)}), wants, {.here = 1}).kind, Kind::kHere);
}

TEST(Hybrid, TheHeadHasNoHere) {
  Decision decision = decide(cluster({node(1, 4, 4)}), request(1), {});
  EXPECT_EQ(decision.kind, Kind::kNode);
  EXPECT_EQ(decision.node, 1u);
}

TEST(Hybrid, WaitsSilentlyWhenBusyAndWithAWarningWhenTooLarge) {
  ClusterView view = cluster({node(1, 2, 0), node(2, 2, 1)});
  Decision busy = decide(view, request(2), {.here = 1});
  EXPECT_EQ(busy.kind, Kind::kWait);
  EXPECT_TRUE(busy.reason.empty());
  Decision large = decide(view, request(3), {.here = 1});
  EXPECT_EQ(large.kind, Kind::kWait);
  EXPECT_NE(large.reason.find("larger than any node"), std::string::npos);
  EXPECT_NE(large.reason.find("{CPU: 3}"), std::string::npos);
}

TEST(Hybrid, AnAccountBelowZeroTakesNoMore) {
  NodeView owing = node(1, 2, 0);
  owing.available.cpu = -kUnit;
  EXPECT_EQ(decide(cluster({owing}), request(1), {.here = 1}).kind, Kind::kWait);
  EXPECT_EQ(decide(cluster({owing}), request(0), {.here = 1}).kind, Kind::kHere);
}

TEST(Spread, GoesRoundWithEqualLoad) {
  ClusterView view = cluster({node(1, 4, 4), node(2, 4, 4), node(3, 4, 4)});
  std::uint32_t last = 0;
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 7; ++i) {
    Decision decision = decide(view, request(0, Spread{}), {.here = 2, .last_spread = last});
    order.push_back(last = decision.node);
  }
  EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 2, 3, 1, 2, 3, 1}));
}

TEST(Spread, PrefersTheLeastLoaded) {
  ClusterView view = cluster({node(1, 4, 1), node(2, 4, 3), node(3, 4, 2)});
  EXPECT_EQ(decide(view, request(1, Spread{}), {.here = 1, .last_spread = 2}).node, 2u);
  EXPECT_EQ(decide(cluster({node(1, 1, 0), node(2, 1, 0)}), request(1, Spread{}), {.here = 1}).kind, Kind::kWait);
}

TEST(Affinity, HardGoesThereOrWaitsForIt) {
  ClusterView view = cluster({node(1, 4, 4), node(2, 4, 0)});
  EXPECT_EQ(decide(view, request(1, NodeAffinity{"id2"}), {.here = 1}).kind, Kind::kWait);
  EXPECT_EQ(decide(view, request(0, NodeAffinity{"id2"}), {.here = 1}).node, 2u);
  EXPECT_EQ(decide(view, request(1, NodeAffinity{"id1"}), {.here = 1}).kind, Kind::kHere);
}

TEST(Affinity, HardThatCanNeverHoldIsInfeasibleAtOnce) {
  ClusterView view = cluster({node(1, 4, 4, {{"zone", "a"}})});
  Decision unknown = decide(view, request(1, NodeAffinity{"gone"}), {.here = 1});
  EXPECT_EQ(unknown.kind, Kind::kInfeasible);
  EXPECT_NE(unknown.reason.find("gone"), std::string::npos);
  EXPECT_EQ(decide(view, request(5, NodeAffinity{"id1"}), {.here = 1}).kind, Kind::kInfeasible);
  EXPECT_EQ(decide(view, request(1, NodeAffinity{"id1"}, {{{"zone", "b"}}}), {.here = 1}).kind, Kind::kInfeasible);
}

TEST(Affinity, SoftFallsBackOnlyWhenTheNodeCannotEver) {
  ClusterView view = cluster({node(1, 4, 4), node(2, 1, 0)});
  EXPECT_EQ(decide(view, request(1, NodeAffinity{"gone", true}), {.here = 1}).kind, Kind::kHere);
  EXPECT_TRUE(decide(view, request(1, NodeAffinity{"gone", true}), {.here = 1}).unknown_node) << "LQ-9";
  EXPECT_FALSE(decide(view, request(2, NodeAffinity{"id2", true}), {.here = 1}).unknown_node);
  EXPECT_EQ(decide(view, request(2, NodeAffinity{"id2", true}), {.here = 1}).kind, Kind::kHere);
  EXPECT_EQ(decide(view, request(1, NodeAffinity{"id2", true}), {.here = 1}).kind, Kind::kWait);
}

TEST(Labels, EveryFormOfPattern) {
  const std::string a = "a";
  EXPECT_TRUE(label_matches(&a, "a"));
  EXPECT_FALSE(label_matches(&a, "b"));
  EXPECT_TRUE(label_matches(&a, "!b"));
  EXPECT_FALSE(label_matches(&a, "!a"));
  EXPECT_TRUE(label_matches(&a, "in(b, a)"));
  EXPECT_FALSE(label_matches(&a, "in(b,c)"));
  EXPECT_FALSE(label_matches(&a, "in()"));
  EXPECT_TRUE(label_matches(&a, "!in(b,c)"));
  EXPECT_FALSE(label_matches(&a, "!in(a)"));
  EXPECT_FALSE(label_matches(nullptr, "a"));
  EXPECT_FALSE(label_matches(nullptr, "in(a)"));
  EXPECT_TRUE(label_matches(nullptr, "!a")) << "a missing label is not that value";
  EXPECT_TRUE(label_matches(nullptr, "!in(a,b)"));
  EXPECT_FALSE(selector_problem({{{"k", "in(a)"}}}));
  EXPECT_TRUE(selector_problem({{{"k", "in(a"}}}));
  EXPECT_TRUE(selector_problem({{{"", "a"}}}));
}

TEST(Labels, AllMustHoldAndOnlySuchNodesAreTaken) {
  ClusterView view = cluster({node(1, 4, 4, {{"zone", "a"}}), node(2, 4, 4, {{"zone", "b"}, {"disk", "ssd"}}),
                              node(3, 4, 4, {{"zone", "b"}})});
  EXPECT_EQ(decide(view, request(1, Hybrid{}, {{{"zone", "b"}}}), {.here = 1}).node, 2u);
  EXPECT_EQ(decide(view, request(1, Spread{}, {{{"zone", "b"}, {"disk", "!ssd"}}}), {.here = 1}).node, 3u);
}

TEST(Labels, ASelectorThatNoNodeSatisfiesIsInfeasibleAndOneThatIsTooSmallWaits) {
  ClusterView view = cluster({node(1, 4, 4, {{"zone", "a"}})});
  Decision none = decide(view, request(1, Hybrid{}, {{{"zone", "c"}}}), {.here = 1});
  EXPECT_EQ(none.kind, Kind::kInfeasible);
  EXPECT_NE(none.reason.find("zone: c"), std::string::npos);
  EXPECT_EQ(decide(view, request(9, Hybrid{}, {{{"zone", "a"}}}), {.here = 1}).kind, Kind::kWait);
}

TEST(Bundles, AreRefusedInWordsUntilTheyExist) {
  Decision decision = decide(cluster({node(1, 4, 4)}), request(1, Bundle{"g", 0}), {.here = 1});
  EXPECT_EQ(decision.kind, Kind::kInfeasible);
  EXPECT_EQ(decision.reason, "placement groups are not available yet");
}

TEST(EmptyCluster, WaitsWithoutAWarning) {
  Decision decision = decide({}, request(1, Hybrid{}, {{{"zone", "c"}}}), {});
  EXPECT_EQ(decision.kind, Kind::kWait);
  EXPECT_TRUE(decision.reason.empty());
}

}  // namespace
}  // namespace troupe::sched
