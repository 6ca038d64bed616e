// RS-1 .. RS-4, and which GPUs a grant is on.
#include "scheduler/resources.h"

#include <gtest/gtest.h>

#include <limits>

namespace troupe::sched {
namespace {

ResourceSet cpus(double n) { return ResourceSet::from({.cpus = n}, 0); }

TEST(ResourceSet, TenTenthsAreOneExactly) {
  ResourceSet left = cpus(1);
  for (int i = 0; i < 10; ++i) left.subtract(cpus(0.1));
  EXPECT_EQ(left.cpu, 0);
  EXPECT_TRUE(left.empty());
}

TEST(ResourceSet, UnsetCpusTakeTheCallersDefault) {
  EXPECT_EQ(ResourceSet::from({}, kTaskCpus).cpu, kUnit);
  EXPECT_EQ(ResourceSet::from({}, kActorCpus).cpu, 0);
  EXPECT_EQ(ResourceSet::from({.cpus = 0}, kTaskCpus).cpu, 0);
}

TEST(ResourceSet, SurvivesTheTripThroughNames) {
  ResourceSet set =
      ResourceSet::from({.cpus = 1.5, .gpus = 0.25, .memory = 1 << 30, .custom = {{"fpga", 2}, {"a", 0}}}, 0);
  EXPECT_EQ(ResourceSet::from_map(set.to_map()), set);
  EXPECT_EQ(set.custom.size(), 1u) << "RS-1: nothing with amount zero";
  EXPECT_EQ(set.to_string(), "{CPU: 1.5, GPU: 0.25, memory: 1073741824, fpga: 2}");
}

TEST(ResourceSet, AddAndSubtractAreInverseAlsoForCustomResources) {
  ResourceSet set = ResourceSet::from({.cpus = 2, .custom = {{"b", 1}}}, 0);
  const ResourceSet before = set, other = ResourceSet::from({.cpus = 1, .custom = {{"a", 3}, {"b", 1}, {"c", 0.5}}}, 0);
  set.add(other);
  EXPECT_EQ(set.custom_amount("b"), 2 * kUnit);
  set.subtract(other);
  EXPECT_EQ(set, before);
}

TEST(ResourceSet, FitsLooksOnlyAtWhatIsAskedFor) {
  ResourceSet there = cpus(1);
  EXPECT_TRUE(cpus(1).fits(there));
  EXPECT_FALSE(cpus(1.0001).fits(there));
  EXPECT_FALSE(ResourceSet::from({.cpus = 0, .custom = {{"x", 1}}}, 0).fits(there));
  there.cpu = -kUnit;
  EXPECT_TRUE(cpus(0).fits(there)) << "RS-3: a request without CPU is not held up by CPU";
  EXPECT_FALSE(cpus(0.1).fits(there));
}

TEST(ResourceAccount, NeverGrantsWhatItHasNot) {
  ResourceAccount account(cpus(2));
  EXPECT_TRUE(account.try_grant(cpus(1.5)));
  EXPECT_FALSE(account.try_grant(cpus(1)));
  EXPECT_EQ(account.available().cpu, kUnit / 2) << "RS-2: a refusal takes nothing";
  account.give_back(cpus(1.5));
  EXPECT_EQ(account.available(), account.total());
}

TEST(ResourceAccount, AWokenTaskTakesItsCpusEvenBelowZeroAndHoldsBackGrants) {
  ResourceAccount account(cpus(1));
  ASSERT_TRUE(account.try_grant(cpus(1)));
  account.lend_cpu(kUnit);                   // the task waits
  ASSERT_TRUE(account.try_grant(cpus(1)));   // another runs
  account.reclaim_cpu(kUnit);                // the first wakes
  EXPECT_EQ(account.available().cpu, -kUnit);
  account.give_back(cpus(1));
  EXPECT_FALSE(account.can_grant(cpus(1))) << "RS-3";
  account.give_back(cpus(1));
  EXPECT_TRUE(account.can_grant(cpus(1)));
}

TEST(ResourceAccount, GivingBackTooMuchIsCutOffAtTotal) {
  ResourceAccount account(ResourceSet::from({.cpus = 1, .custom = {{"x", 1}}}, 0));
  account.give_back(ResourceSet::from({.cpus = 5, .custom = {{"x", 2}, {"y", 1}}}, 0));
  EXPECT_EQ(account.available(), account.total()) << "RS-4";
}

TEST(ResourceProblem, NamesWhatIsWrong) {
  EXPECT_FALSE(resource_problem({}));
  EXPECT_FALSE(resource_problem({.cpus = 0.5, .gpus = 2}));
  EXPECT_TRUE(resource_problem({.cpus = -2}));
  EXPECT_TRUE(resource_problem({.cpus = std::numeric_limits<double>::quiet_NaN()}));
  EXPECT_TRUE(resource_problem({.gpus = 1.5}));
  EXPECT_TRUE(resource_problem({.custom = {{"x", -1}}}));
  EXPECT_TRUE(resource_problem({.custom = {{"CPU", 1}}}));
  EXPECT_TRUE(resource_problem({.custom = {{"", 1}}}));
  EXPECT_NE(resource_problem({.gpus = 1.5})->find("1.5"), std::string::npos);
}

TEST(ResourceSet, WhatIsHeldHelpsWhereItIsWanting) {
  const auto set = [](std::map<std::string, double> amounts) { return ResourceSet::from_map(amounts); };
  EXPECT_TRUE(would_help(set({{"CPU", 1}}), set({{"CPU", 2}}), set({{"CPU", 1}})));
  EXPECT_FALSE(would_help(set({{"CPU", 1}}), set({{"CPU", 1}}), set({{"CPU", 1}})));
  EXPECT_FALSE(would_help(set({{"memory", 1}}), set({{"CPU", 2}}), set({{"CPU", 1}})));
  EXPECT_TRUE(would_help(set({{"memory", 1}}), set({{"memory", 2}}), set({{"memory", 1}})));
  EXPECT_TRUE(would_help(set({{"x", 1}}), set({{"x", 1}}), {}));
  EXPECT_FALSE(would_help(set({{"x", 1}}), set({{"y", 1}}), {}));
  EXPECT_TRUE(would_help(set({{"GPU", 0.5}}), set({{"GPU", 1}}), set({{"GPU", 1}})));  // in two pieces
  EXPECT_FALSE(would_help(set({{"GPU", 0.5}}), set({{"CPU", 1}}), {}));
}

TEST(GpuSlots, FractionsShareOneGpuAndLeaveWholeOnesFree) {
  GpuSlots gpus(2);
  EXPECT_EQ(gpus.take(to_fixed(0.5)), std::vector<int>{0});
  EXPECT_EQ(gpus.take(to_fixed(0.5)), std::vector<int>{0});
  EXPECT_EQ(gpus.take(to_fixed(1)), std::vector<int>{1});
  EXPECT_FALSE(gpus.take(to_fixed(0.1)));
  gpus.give_back({0}, to_fixed(0.5));
  EXPECT_FALSE(gpus.take(to_fixed(1))) << "half of it is still used";
  EXPECT_EQ(gpus.take(to_fixed(0.25)), std::vector<int>{0});
  EXPECT_EQ(gpus.take(0), std::vector<int>{});
}

TEST(GpuSlots, WholeNumbersGetThatManyWholeGpus) {
  GpuSlots gpus(4);
  EXPECT_EQ(gpus.take(to_fixed(3)), (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(gpus.take(to_fixed(2)));
  gpus.give_back({0, 1, 2}, to_fixed(3));
  EXPECT_EQ(gpus.take(to_fixed(4)), (std::vector<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace troupe::sched
