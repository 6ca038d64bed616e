#include "scheduler/local_resources.h"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

ResourceSet amounts(double cpus, double gpus) { return ResourceSet::from_map({{"CPU", cpus}, {"GPU", gpus}}); }

TEST(LocalResourcesTest, LRS1_AllThatIsAskedForIsGivenOrNothing) {
  LocalResources node(amounts(2, 2));
  const std::optional<Allocation> half = node.take(amounts(0, 0.5)), other = node.take(amounts(0, 1));
  ASSERT_TRUE(half && other);
  EXPECT_NE(half->gpu_ids, other->gpu_ids) << "a whole GPU is one of which nobody has a part";
  EXPECT_FALSE(node.take(amounts(1, 1))) << "half a GPU is free";
  EXPECT_EQ(node.available(), amounts(2, 0.5)) << "and the CPU that was there was not taken";
  node.give_back(*half, false);
  const std::optional<Allocation> again = node.take(amounts(1, 1));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->gpu_ids, half->gpu_ids);
  node.give_back(*again, false);
  node.give_back(*other, false);
  EXPECT_EQ(node.available(), node.total());
}

TEST(LocalResourcesTest, LRS3_WhatIsThereAtOnceIsWhatOneRequestCanHave) {
  LocalResources resources(ResourceSet::from_map({{"CPU", 4}, {"GPU", 2}}));
  const auto gpus = [](double amount) { return ResourceSet::from_map({{"GPU", amount}}); };
  EXPECT_EQ(resources.at_once(), resources.total());
  const auto half = resources.take(gpus(0.5));
  EXPECT_EQ(resources.at_once().gpu, kUnit) << "one is whole";
  EXPECT_TRUE(resources.take(gpus(0.5)));
  const auto most = resources.take(gpus(0.7));
  EXPECT_EQ(resources.at_once().gpu, to_fixed(0.3));
  resources.give_back(*half, false);
  EXPECT_EQ(resources.available().gpu, to_fixed(0.8));
  EXPECT_EQ(resources.at_once().gpu, to_fixed(0.5));
  EXPECT_FALSE(resources.take(gpus(0.6)));
  EXPECT_TRUE(resources.take(gpus(0.5)));
  resources.give_back(*most, false);
  EXPECT_EQ(resources.at_once().gpu, kUnit);
}

TEST(LocalResourcesTest, LRS2_WhoWakesGoesOnAlthoughItsCpusWereGivenAway) {
  LocalResources node(amounts(1, 0));
  const Allocation sleeper = node.take(amounts(1, 0)).value();
  node.lend_cpus(sleeper);
  const Allocation other = node.take(amounts(1, 0)).value();
  node.reclaim_cpus(sleeper);
  EXPECT_EQ(node.available().cpu, -kUnit);
  node.give_back(other, false);
  EXPECT_EQ(node.available().cpu, 0);
  node.lend_cpus(sleeper);
  node.give_back(sleeper, true);
  EXPECT_EQ(node.available(), node.total()) << "CPUs that are lent are not given back a second time";
}

}  // namespace
}  // namespace troupe::sched
