// Which rows a rank takes: no padding, the same global batch for any number of ranks, resumable from the step alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "apps/train/trainer/sampler.h"

namespace troupe::train {
namespace {

std::vector<std::uint64_t> batch_of(Sampler& sampler, std::int64_t step, int ranks) {
  std::vector<std::uint64_t> all, rows;
  for (int r = 0; r < ranks; ++r) {
    sampler.rows(step, part_of(sampler.batch(), r, ranks), rows);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

// SA-1, SA-2
TEST(TrainSampler, TheGlobalBatchIsTheSameForAnyNumberOfRanks) {
  for (const Sampling sampling : {Sampling::kShuffled, Sampling::kUniform, Sampling::kListed}) {
    Sampler sampler =
        Sampler::create(
            {.sampling = sampling, .rows = 103, .batch = 25, .seed = 5, .listed = {1, 4, 9, 16, 25, 36, 100}})
            .value();
    for (std::int64_t step : {0, 3, 4, 1000})
      for (int ranks : {2, 3, 7, 25, 40})
        EXPECT_EQ(batch_of(sampler, step, ranks), batch_of(sampler, step, 1)) << ranks << " ranks, step " << step;
  }
}

TEST(TrainSampler, PartsDifferByOneRowAtMostAndCoverTheBatch) {
  for (std::size_t count : {0, 1, 12, 25, 1000})
    for (int ranks : {1, 2, 3, 7, 33}) {
      std::size_t at = 0, least = count, most = 0;
      for (int r = 0; r < ranks; ++r) {
        const Part part = part_of(count, r, ranks);
        EXPECT_EQ(part.begin, at);
        at = part.end, least = std::min(least, part.size()), most = std::max(most, part.size());
      }
      EXPECT_EQ(at, count);
      EXPECT_LE(most - least, 1u);
    }
}

// SA-3: also where a batch ends one epoch and begins the next.
TEST(TrainSampler, EveryEpochIsAPermutationOfItsOwn) {
  Sampler sampler = Sampler::create({.rows = 10, .batch = 4, .seed = 1}).value();
  std::vector<std::uint64_t> all;
  for (std::int64_t step = 0; step < 10; ++step) {
    const auto rows = batch_of(sampler, step, 3);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  std::set<std::vector<std::uint64_t>> orders;
  for (std::size_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<std::uint64_t> order(all.begin() + std::ptrdiff_t(10 * epoch),
                                     all.begin() + std::ptrdiff_t(10 * epoch + 10));
    orders.insert(order);
    std::sort(order.begin(), order.end());
    for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(order[i], i) << "epoch " << epoch;
  }
  EXPECT_EQ(orders.size(), 4u) << "the epochs have different orders";
  EXPECT_DOUBLE_EQ(sampler.epochs(5), 2.0);
}

TEST(TrainSampler, AnyStepCanBeHadWithoutThoseBefore) {
  Sampler one = Sampler::create({.rows = 100, .batch = 7, .seed = 3}).value(), other = one;
  for (std::int64_t step = 0; step < 50; ++step) (void)batch_of(one, step, 1);
  EXPECT_EQ(batch_of(one, 50, 1), batch_of(other, 50, 1));
  Sampler seeded = Sampler::create({.rows = 100, .batch = 7, .seed = 4}).value();
  EXPECT_NE(batch_of(one, 50, 1), batch_of(seeded, 50, 1));
  EXPECT_NE(one.describe(), seeded.describe());
}

TEST(TrainSampler, UniformRowsAreUniform) {
  Sampler sampler = Sampler::create({.sampling = Sampling::kUniform, .rows = 10, .batch = 1000, .seed = 2}).value();
  std::vector<int> seen(10);
  for (std::int64_t step = 0; step < 10; ++step)
    for (const std::uint64_t row : batch_of(sampler, step, 1)) ++seen[row];
  for (const int n : seen) EXPECT_NEAR(n, 1000, 150);
}

TEST(TrainSampler, WhatCannotBeIsATypedError) {
  EXPECT_FALSE(Sampler::create({.rows = 0, .batch = 1}).ok());
  EXPECT_FALSE(Sampler::create({.rows = 1, .batch = 0}).ok());
  EXPECT_FALSE(Sampler::create({.sampling = Sampling::kListed, .rows = 5, .batch = 1}).ok());
  EXPECT_FALSE(Sampler::create({.sampling = Sampling::kListed, .rows = 5, .batch = 1, .listed = {5}}).ok());
}

}  // namespace
}  // namespace troupe::train
