// Placement by itself: lines, passes, what is mentioned (AP-1 to AP-4). Through the head: placement_test.cc.
#include "core/head/state/actors/actor_placement.h"

#include <gtest/gtest.h>

#include <vector>

namespace troupe::head {
namespace {

using namespace std::chrono_literals;
using Attempt = ActorPlacement::Attempt;
using Kind = sched::Decision::Kind;

class ActorPlacementTest : public ::testing::Test {
 protected:
  std::uint32_t join(double cpus) {
    wire::RegisterNode request;
    request.info.resources = {{"CPU", cpus}};
    membership_.register_node(turn_, ++links_, {}, request, random_);
    return membership_.living().back();
  }
  wire::ActorSpec spec(double cpus, Scheduling scheduling = Hybrid{}) {
    wire::ActorSpec result;
    result.id = {{1, 1}, ++sequence_};
    result.class_name = "Counter";
    result.resources.cpus = cpus;
    result.scheduling = std::move(scheduling);
    return result;
  }

  Random random_{1};
  Effects effects_;
  Turn turn_{1h, effects_};
  Membership membership_{MembershipOptions{}};
  ActorPlacement placement_{membership_};
  LinkId links_ = 0;
  std::uint64_t sequence_ = 0;
};

TEST_F(ActorPlacementTest, WhatFitsNowhereWaitsForANodeThatIsLargeEnough) {
  join(1);
  const wire::ActorSpec large = spec(4);
  EXPECT_EQ(placement_.decide(large).kind, Kind::kWait);
  const std::uint32_t node = join(4);
  const sched::Decision decision = placement_.decide(large);
  EXPECT_NE(decision.kind, Kind::kWait);
  EXPECT_EQ(decision.node, node);
}

TEST_F(ActorPlacementTest, AP1_AChangeDuringAPassMakesAnother) {
  const wire::ActorSpec first = spec(1), second = spec(2);
  placement_.wait(first);
  placement_.wait(second);
  std::vector<ActorId> asked;
  bool room = false;
  placement_.pass([&](ActorId id) {
    asked.push_back(id);
    if (id == first.id && !room) return Attempt::kNoRoom;
    if (id == second.id) {  // its end makes room for the one that was asked about before
      room = true;
      placement_.pass([](ActorId) -> Attempt { ADD_FAILURE() << "a pass inside of a pass"; return Attempt::kPlaced; });
    }
    return Attempt::kPlaced;
  });
  EXPECT_EQ(asked, (std::vector<ActorId>{first.id, second.id, first.id}));
}

TEST_F(ActorPlacementTest, AP2_WhatIsPlacedIsTakenAtOnce) {
  const std::uint32_t node = join(1);
  const wire::ActorSpec one = spec(1);
  ASSERT_EQ(placement_.decide(one).node, node);
  placement_.placed(one, node);
  EXPECT_EQ(placement_.decide(spec(1)).kind, Kind::kWait);
}

TEST_F(ActorPlacementTest, AP2_SpreadGoesOnFromTheLastPlace) {
  const std::uint32_t a = join(1), b = join(1);
  std::vector<std::uint32_t> nodes;
  for (int i = 0; i < 4; ++i) {
    const wire::ActorSpec one = spec(0, Spread{});
    nodes.push_back(placement_.decide(one).node);
    placement_.placed(one, nodes.back());
  }
  EXPECT_EQ(nodes, (std::vector<std::uint32_t>{a, b, a, b}));
}

TEST_F(ActorPlacementTest, AP3_ADemandIsMentionedOnceAndAgainMuchLater) {
  join(1);
  EXPECT_TRUE(placement_.why_waiting(1h, spec(4)));
  EXPECT_FALSE(placement_.why_waiting(1h, spec(4))) << "another actor, the same demand";
  EXPECT_TRUE(placement_.why_waiting(1h, spec(5)));
  EXPECT_FALSE(placement_.why_waiting(1h + kWarnAgain - 1ns, spec(4)));
  EXPECT_TRUE(placement_.why_waiting(1h + kWarnAgain, spec(4)));
}

TEST_F(ActorPlacementTest, AP4_AClaimGoesWhereItWouldFitWithoutTasks) {
  const std::uint32_t a = join(2), b = join(4);
  placement_.placed(spec(2), a);  // as a view does that is full of tasks
  placement_.placed(spec(4), b);
  std::map<std::uint32_t, sched::ResourceSet> held;
  EXPECT_EQ(placement_.claim(1h, spec(4), held), b);
  EXPECT_EQ(placement_.claim(1h, spec(8), held), 0u);
  held[b].cpu = sched::kUnit;
  EXPECT_EQ(placement_.claim(1h, spec(4), held), 0u) << "an actor has one of the four";
  EXPECT_EQ(placement_.claim(1h, spec(3), held), b);
  const auto rest = placement_.claim_refused(1h, b, 0.5);
  EXPECT_EQ(placement_.claim(1h + rest - 1ns, spec(3), held), 0u);
  EXPECT_EQ(placement_.claim(1h, spec(2), held), a) << "another node may have it";
  EXPECT_EQ(placement_.claim(1h + rest, spec(3), held), b);
  EXPECT_GT(placement_.claim_refused(2h, b, 0.5), rest) << "a longer one each time";
  placement_.claim_kept(b);
  EXPECT_EQ(placement_.claim_refused(3h, b, 0.5), rest);
}

TEST_F(ActorPlacementTest, WhatNoNodeCanHoldIsMentionedSooner) {
  EXPECT_EQ(placement_.warn_after(spec(1)), kWarnTooLarge) << "no node at all";
  EXPECT_EQ(placement_.why_waiting(1h, spec(1)), "the cluster has no node yet");
  const std::uint32_t node = join(1);
  EXPECT_EQ(placement_.warn_after(spec(2)), kWarnTooLarge);
  placement_.placed(spec(1), node);
  EXPECT_EQ(placement_.warn_after(spec(1)), kWarnBusy);
}

}  // namespace
}  // namespace troupe::head
