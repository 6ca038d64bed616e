// Promises of allocator.h, by seeded random operations against a plain model (a map of pages in use).
#include "objectstore/server/allocator.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "objectstore/arena/layout.h"

namespace troupe::store {
namespace {

using Kind = Allocator::Kind;

struct Held {
  Range range;
  Kind kind;
};

std::uint64_t longest_free_run(const std::vector<bool>& pages) {
  std::uint64_t longest = 0, run = 0;
  for (bool used : pages) {
    run = used ? 0 : run + 1;
    longest = std::max(longest, run);
  }
  return longest;
}

class AllocatorModel {
 public:
  explicit AllocatorModel(std::uint64_t pages) : allocator(pages * kPageBytes), used(pages, false) {}

  void allocate(std::uint64_t bytes, Kind kind) {
    std::uint64_t pages = std::max<std::uint64_t>(1, (bytes + kPageBytes - 1) / kPageBytes);
    auto r = allocator.allocate(bytes, kind);
    if (!r) {
      ASSERT_LT(longest_free_run(used), pages) << "AL-5: refused although a stretch is long enough";
      return;
    }
    ASSERT_EQ(r->size, pages * kPageBytes);
    ASSERT_EQ(r->offset % kPageBytes, 0u);
    ASSERT_LE(r->end(), used.size() * kPageBytes) << "AL-1";
    for (std::uint64_t p = r->offset / kPageBytes; p < r->end() / kPageBytes; ++p) {
      ASSERT_FALSE(used[p]) << "AL-1: page " << p << " handed out twice";
      used[p] = true;
    }
    held.push_back({*r, kind});
  }

  void free(std::size_t i) {
    for (std::uint64_t p = held[i].range.offset / kPageBytes; p < held[i].range.end() / kPageBytes; ++p)
      used[p] = false;
    allocator.free(held[i].range);
    held[i] = held.back();
    held.pop_back();
  }

  std::uint64_t used_bytes() const {
    std::uint64_t pages = 0;
    for (bool u : used) pages += u;
    return pages * kPageBytes;
  }

  Allocator allocator;
  std::vector<bool> used;
  std::vector<Held> held;
};

TEST(Allocator, RandomOperationsAgreeWithAModelOfPages) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    AllocatorModel model(64 + random() % 1000);
    for (int step = 0; step < 2000; ++step) {
      if (model.held.empty() || random() % 100 < 55) {
        std::uint64_t bytes = random() % (random() % 8 == 0 ? 200 * kPageBytes : 8 * kPageBytes);
        ASSERT_NO_FATAL_FAILURE(model.allocate(bytes, random() % 2 ? Kind::kLarge : Kind::kSmall))
            << "seed " << seed << " step " << step;
      } else {
        model.free(random() % model.held.size());
      }
      ASSERT_EQ(model.allocator.used(), model.used_bytes()) << "AL-4, seed " << seed;
    }
    while (!model.held.empty()) model.free(random() % model.held.size());
    EXPECT_EQ(model.allocator.used(), 0u);
    EXPECT_TRUE(model.allocator.allocate(model.allocator.capacity(), random() % 2 ? Kind::kLarge : Kind::kSmall))
        << "AL-2, seed " << seed;
  }
}

TEST(Allocator, WhatWasFreedLastIsHandedOutFirst) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    AllocatorModel model(2000);
    for (int step = 0; step < 500; ++step) {
      ASSERT_NO_FATAL_FAILURE(model.allocate(random() % (20 * kPageBytes), random() % 2 ? Kind::kLarge : Kind::kSmall));
      if (model.held.empty() || random() % 3) continue;
      std::size_t i = random() % model.held.size();
      Held before = model.held[i];
      model.free(i);
      ASSERT_NO_FATAL_FAILURE(model.allocate(before.range.size, before.kind));
      ASSERT_EQ(model.held.back().range, before.range) << "AL-3, seed " << seed << " step " << step;
    }
  }
}

TEST(Allocator, FreshMemoryIsTakenOnlyWhenNothingWarmFits) {
  Allocator allocator(1000 * kPageBytes);
  auto a = allocator.allocate(100 * kPageBytes, Kind::kLarge);
  auto b = allocator.allocate(100 * kPageBytes, Kind::kLarge);
  std::uint64_t fresh = allocator.fresh().size;
  allocator.free(*a);
  EXPECT_TRUE(allocator.allocate(40 * kPageBytes, Kind::kLarge));
  EXPECT_TRUE(allocator.allocate(60 * kPageBytes, Kind::kLarge));
  EXPECT_EQ(allocator.fresh().size, fresh);
  allocator.free(*b);
  EXPECT_TRUE(allocator.allocate(150 * kPageBytes, Kind::kLarge));
  EXPECT_EQ(allocator.fresh().size, fresh - 50 * kPageBytes) << "the warm part beside the fresh one is used with it";
}

TEST(Allocator, SmallChunksDoNotSplitTheRangeOfTheNextLargeBuffer) {
  Allocator allocator(1000 * kPageBytes);
  auto large = allocator.allocate(500 * kPageBytes, Kind::kLarge);
  allocator.free(*large);
  EXPECT_TRUE(allocator.allocate(kPageBytes, Kind::kSmall));
  EXPECT_EQ(allocator.allocate(500 * kPageBytes, Kind::kLarge), large);
}

TEST(Allocator, SizesBeyondTheCapacityAreRefusedAndZeroIsAPage) {
  Allocator allocator(10 * kPageBytes + 17);
  EXPECT_EQ(allocator.capacity(), 10 * kPageBytes);
  EXPECT_FALSE(allocator.allocate(11 * kPageBytes, Kind::kLarge));
  EXPECT_FALSE(allocator.allocate(~std::uint64_t(0), Kind::kLarge));
  EXPECT_EQ(allocator.allocate(0, Kind::kLarge)->size, kPageBytes);
}

}  // namespace
}  // namespace troupe::store
