// The learning rate at every step: the published formulas, point by point.
#include <gtest/gtest.h>

#include <cmath>

#include "apps/train/trainer/schedule.h"

namespace troupe::train {
namespace {

// TSD-1, TSD-2: Goyal et al.: from eta to k eta in equal steps, then the usual schedule.
TEST(TrainSchedule, GradualWarmUpGoesInEqualStepsFromTheBaseToTheScaledRate) {
  const ScheduleOptions o{.base_rate = 0.1,
                          .batch = 8192,
                          .reference_batch = 256,
                          .warm_up = WarmUp::kGradual,
                          .warmup_steps = 780,
                          .decay = Decay::kSteps,
                          .milestones = {4680, 9360, 12480}};
  ASSERT_TRUE(check(o).ok());
  EXPECT_DOUBLE_EQ(learning_rate(o, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(o, 780), 3.2);
  for (int i = 0; i < 780; ++i) EXPECT_NEAR(learning_rate(o, i + 1) - learning_rate(o, i), 3.1 / 780, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(o, 4679), 3.2);
  EXPECT_DOUBLE_EQ(learning_rate(o, 4680), 3.2 * 0.1);
  EXPECT_NEAR(learning_rate(o, 12480), 0.0032, 1e-15);
}

TEST(TrainSchedule, WarmUpDoesNothingForTheReferenceBatch) {
  const ScheduleOptions o{
      .base_rate = 0.1, .batch = 256, .reference_batch = 256, .warm_up = WarmUp::kGradual, .warmup_steps = 10};
  for (int i = 0; i < 20; ++i) EXPECT_DOUBLE_EQ(learning_rate(o, i), 0.1);
}

// lr(it) = 1e-3 (it+1)/101 below 100, then the cosine from 1e-3 at 100 to 1e-4 at 2000, 1e-4 after it.
TEST(TrainSchedule, CosineIsThatOfThePublishedCharacterModel) {
  const ScheduleOptions o{
      .base_rate = 1e-3, .warmup_steps = 100, .decay = Decay::kCosine, .minimum = 1e-4, .decay_steps = 2000};
  ASSERT_TRUE(check(o).ok());
  EXPECT_DOUBLE_EQ(learning_rate(o, 0), 1e-3 / 101);
  EXPECT_DOUBLE_EQ(learning_rate(o, 99), 1e-3 * 100 / 101);
  EXPECT_DOUBLE_EQ(learning_rate(o, 100), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(o, 1050), 1e-4 + 0.5 * 9e-4);
  EXPECT_DOUBLE_EQ(learning_rate(o, 2000), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(o, 2001), 1e-4);
}

TEST(TrainSchedule, WhatCannotBeIsATypedError) {
  const auto refused = [](const ScheduleOptions& o) {
    const Status status = check(o);
    return !status.ok() && status.error().code() == ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({.base_rate = 0}));
  EXPECT_TRUE(refused({.base_rate = std::nan("")}));
  EXPECT_TRUE(refused({.batch = 8}));
  EXPECT_TRUE(refused({.warmup_steps = -1}));
  EXPECT_TRUE(refused({.warmup_steps = 10, .decay = Decay::kCosine, .decay_steps = 10}));
  EXPECT_TRUE(refused({.decay = Decay::kCosine, .minimum = 1, .decay_steps = 10}));
  EXPECT_TRUE(refused({.decay = Decay::kSteps, .milestones = {5, 3}}));
}

TEST(TrainSchedule, DescriptionsDifferWhenTheScheduleDoes) {
  EXPECT_NE(describe({.base_rate = 1e-3}), describe({.base_rate = std::nextafter(1e-3, 1)}));
  EXPECT_NE(describe({.decay = Decay::kSteps, .milestones = {5}}),
            describe({.decay = Decay::kSteps, .milestones = {5, 6}}));
  EXPECT_EQ(describe({.warmup_steps = 3}), describe({.warmup_steps = 3}));
}

// H.16: a description says where the cosine ended, so that a longer run goes on with the same one.
TEST(TrainSchedule, TheEndOfTheCosineIsInItsDescription) {
  ScheduleOptions options{
      .base_rate = 0.1, .warmup_steps = 7, .decay = Decay::kCosine, .minimum = 0.01, .decay_steps = 200};
  EXPECT_EQ(cosine_end(describe(options)), 200);
  options.decay = Decay::kConstant;
  EXPECT_EQ(cosine_end(describe(options)), std::nullopt);
  options.decay = Decay::kSteps;
  options.milestones = {5, 10};
  EXPECT_EQ(cosine_end(describe(options)), std::nullopt);
  for (const char* damaged :
       {"", " cosine to ", " cosine to 1 at ", " cosine to 1 at x", " cosine to 1 at -3", " at 5 cosine to 1"})
    EXPECT_EQ(cosine_end(damaged), std::nullopt) << damaged;
}

}  // namespace
}  // namespace troupe::train
