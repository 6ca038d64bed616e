// The cut of the gradient into buckets, and of buckets into the ranks' parts.
#include <gtest/gtest.h>

#include "apps/train/trainer/zero.h"
#include "kernels/cpu/optimizer/optimizer.h"

namespace troupe::train {
namespace {

constexpr std::size_t kBlock = kernels::kNormBlock;

// BK-1, BK-3
TEST(TrainBuckets, CoverTheGradientFromItsEndInWholeBlocks) {
  for (std::size_t count : {1ul, kBlock, 4097ul, 809'856ul, 10'000'000ul})
    for (std::size_t parts : {1ul, 2ul, 3ul, 8ul}) {
      const BucketPlan plan = cut_buckets(count, 4, parts, {.first_bytes = 1 << 20, .bytes = 4 << 20});
      EXPECT_GE(plan.padded, count);
      EXPECT_LT(plan.padded, count + kBlock * parts);
      std::size_t end = plan.padded;
      for (const FlatRange& bucket : plan.buckets) {
        EXPECT_EQ(bucket.end, end);
        EXPECT_EQ(bucket.size() % (kBlock * parts), 0u);
        end = bucket.begin;
      }
      EXPECT_EQ(end, 0u);
      EXPECT_LE(plan.buckets.front().size() * 4, std::max<std::size_t>(1 << 20, kBlock * parts * 4));
      if (plan.buckets.size() > 2) {
        EXPECT_GT(plan.buckets[1].size() * 4, (4u << 20) - kBlock * parts * 4) << "as large as fits";
      }
    }
}

// BK-2
TEST(TrainBuckets, AreReleasedOnceInOrderWhenComplete) {
  const BucketPlan plan = cut_buckets(10 * kBlock, 4, 1, {.first_bytes = kBlock * 4, .bytes = kBlock * 12});
  ASSERT_EQ(plan.buckets.size(), 4u);  // begin at blocks 9, 6, 3, 0
  BucketGate gate(plan);
  const auto released = [&](std::size_t offset) {
    const auto [first, last] = gate.final_from(offset);
    return std::pair(first, last);
  };
  EXPECT_EQ(released(9 * kBlock + 1), std::pair(0ul, 0ul));
  EXPECT_EQ(released(9 * kBlock), std::pair(0ul, 1ul));
  EXPECT_EQ(released(9 * kBlock), std::pair(1ul, 1ul));
  EXPECT_EQ(released(2 * kBlock), std::pair(1ul, 3ul));
  EXPECT_FALSE(gate.all_released());
  EXPECT_EQ(released(0), std::pair(3ul, 4ul));
  EXPECT_TRUE(gate.all_released());
}

// ZP-1, ZP-2, ZP-3: the shards of all ranks are the whole, equally large, and no padding is updated.
TEST(TrainShards, TogetherHoldEveryElementOnce) {
  const std::size_t count = 7 * kBlock + 100;
  const Layout layout{{"a", {3, 1000}, 0, 3000, true}, {"b", {count - 3000}, 3000, count - 3000, false}};
  for (int ranks : {1, 2, 3})
    for (Zero zero : {Zero::k0, Zero::k1}) {
      std::vector<int> seen(count);
      for (int rank = 0; rank < ranks; ++rank) {
        const ShardPlan plan({.count = count,
                              .element_bytes = 4,
                              .ranks = ranks,
                              .rank = rank,
                              .zero = zero,
                              .buckets = {.first_bytes = 4 * kBlock, .bytes = 12 * kBlock}});
        std::vector<int> compact(plan.shard_size());
        for (std::size_t b = 0; b < plan.buckets().buckets.size(); ++b) {
          EXPECT_EQ(plan.part(b).begin % kBlock, 0u);
          for (const Piece& piece : plan.pieces(b, layout)) {
            EXPECT_EQ(piece.decayed, piece.flat < 3000);
            for (std::size_t i = 0; i < piece.size; ++i) ++seen[piece.flat + i], ++compact[piece.compact + i];
          }
        }
        for (const int n : compact) EXPECT_LE(n, 1);
        if (zero == Zero::k1) { EXPECT_EQ(plan.shard_size() * std::size_t(ranks), plan.buckets().padded); }
      }
      for (const int n : seen) ASSERT_EQ(n, zero == Zero::k1 ? 1 : ranks);
    }
}

TEST(TrainShards, SharedRunsFindTheirPlace) {
  const ShardPlan plan({.count = 6 * kBlock,
                        .element_bytes = 4,
                        .ranks = 3,
                        .rank = 1,
                        .zero = Zero::k1,
                        .buckets = {.first_bytes = 12 * kBlock, .bytes = 12 * kBlock}});
  // Two buckets of three blocks; the own shard is blocks 1 and 4.
  std::vector<std::size_t> compact(2 * kBlock, ~std::size_t(0));
  for (std::size_t begin = 0; begin < 6 * kBlock; begin += 1000)
    plan.each_shared({begin, std::min(begin + 1000, 6 * kBlock)},
                     [&](std::size_t from, std::size_t to, std::size_t size) {
                       for (std::size_t i = 0; i < size; ++i) compact[to + i] = begin + from + i;
                     });
  for (std::size_t i = 0; i < kBlock; ++i) {
    ASSERT_EQ(compact[i], kBlock + i);
    ASSERT_EQ(compact[kBlock + i], 4 * kBlock + i);
  }
}

}  // namespace
}  // namespace troupe::train
