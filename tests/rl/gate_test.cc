// GAT-1 to GAT-3: when copies are taken, and what their results decide.
#include <gtest/gtest.h>

#include "apps/rl/training/gate.h"

namespace {

using namespace rl;

TEST(Gate, GAT1_ACopyBehindEachMultiple) {
  Gate gate({.every = 100});
  std::vector<std::int64_t> taken;
  for (const std::int64_t steps : {64, 99, 128, 192, 256, 257, 500, 560, 600})
    if (gate.wants_copy(steps)) taken.push_back(steps);
  EXPECT_EQ(taken, (std::vector<std::int64_t>{128, 256, 500, 600})) << "300 and 400 are passed in one round";
  Gate never({.every = 0});
  EXPECT_FALSE(never.wants_copy(1000));
}

TEST(Gate, TheFirstCopyThatReachesItIsLookedAtAgainAndThatDecides) {
  Gate gate({.every = 10, .threshold = 100});
  EXPECT_FALSE(gate.add({.steps = 10, .mean = 99.9}));
  EXPECT_EQ(gate.state(), GateState::kOpen);
  EXPECT_TRUE(gate.add({.steps = 20, .mean = 100}));
  EXPECT_EQ(gate.state(), GateState::kAgain);
  EXPECT_FALSE(gate.add({.steps = 30, .mean = 150})) << "only the first one counts";
  gate.add_again({.steps = 20, .mean = 101});
  EXPECT_EQ(gate.state(), GateState::kPassed);
  EXPECT_EQ(gate.copies().size(), 3u);
}

TEST(Gate, ASecondLookThatFailsIsTheEnd) {
  Gate gate({.every = 10, .threshold = 100});
  EXPECT_TRUE(gate.add({.steps = 10, .mean = 100}));
  gate.add_again({.steps = 10, .mean = 99});
  EXPECT_EQ(gate.state(), GateState::kFailed);
  EXPECT_FALSE(gate.add({.steps = 20, .mean = 500}));
  EXPECT_EQ(gate.state(), GateState::kFailed);
}

TEST(Gate, WithoutAThresholdNothingIsDecided) {
  Gate gate({.every = 10});
  EXPECT_FALSE(gate.add({.steps = 10, .mean = 1e9}));
  EXPECT_EQ(gate.state(), GateState::kOpen);
}

TEST(Gate, GoesOnFromWhatWasDecided) {
  Gate gate({.every = 10, .threshold = 100});
  gate.restore({{.steps = 10, .mean = 5}, {.steps = 21, .mean = 120}}, CopyResult{.steps = 21, .mean = 110});
  EXPECT_EQ(gate.state(), GateState::kPassed);
  EXPECT_FALSE(gate.wants_copy(29));
  EXPECT_TRUE(gate.wants_copy(30));
}

TEST(Gate, GAT4_WhatComesBehindTheStepsOfTheRunDecidesNothing) {
  Gate gate({.every = 10, .threshold = 100, .until = 40});
  EXPECT_FALSE(gate.add({.steps = 42, .mean = 120}));
  EXPECT_EQ(gate.state(), GateState::kOpen);
  EXPECT_EQ(gate.copies().size(), 1u);
  EXPECT_TRUE(gate.add({.steps = 40, .mean = 120}));
}

TEST(Gate, GAT5_BetweenItsTwoLooksAGateWaitsForTheSecond) {
  Gate gate({.every = 10, .threshold = 100});
  const CopyResult first{.steps = 21, .mean = 120};
  gate.restore({{.steps = 10, .mean = 5}, first, {.steps = 30, .mean = 130}}, {});
  EXPECT_FALSE(gate.await({.steps = 10, .mean = 5})) << "it had not reached it";
  EXPECT_FALSE(gate.await({.steps = 21, .mean = 110})) << "another run's";
  ASSERT_TRUE(gate.await(first));
  EXPECT_EQ(gate.state(), GateState::kAgain);
  EXPECT_FALSE(gate.add({.steps = 40, .mean = 130})) << "it is not the first one";
  gate.add_again({.steps = 21, .mean = 90});
  EXPECT_EQ(gate.state(), GateState::kFailed);
  gate.restore({first}, {});
  EXPECT_TRUE(gate.add({.steps = 30, .mean = 130})) << "its copy is gone: the next one is looked at";
}

TEST(Gate, GAT3_TheSeedsOfBothLooksAreApart) {
  EXPECT_GT(kGateSeeds, 1'000'000u);
  EXPECT_GE(kGateSeedsAgain - kGateSeeds, 1'000'000u) << "as many episodes as may be asked for";
}

}  // namespace
