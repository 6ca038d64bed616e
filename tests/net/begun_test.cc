// Which calls have begun (core/net/ring/begun.h): BG-1 and BG-2 for every order.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>

#include "core/net/ring/begun.h"

namespace troupe::net {
namespace {

TEST(Begun, IsExactForCallsThatBeginOutOfTheirOrder) {
  SharedBegun shared;
  for (std::uint64_t number : {1, 2, 5, 4, 9}) shared.note(number);
  const BegunCalls begun = shared.snapshot();
  for (std::uint64_t number : {1, 2, 4, 5, 9}) EXPECT_TRUE(begun.has(number)) << number;
  for (std::uint64_t number : {3, 6, 7, 8, 10, 600}) EXPECT_FALSE(begun.has(number)) << number;
  EXPECT_EQ(shared.highest(), 9u);
}

TEST(Begun, NothingHasBegunAtFirstAndAllWhenAWitnessSaysSo) {
  EXPECT_FALSE(BegunCalls().has(1));
  EXPECT_TRUE(BegunCalls::all().has(1));
  BegunCalls begun;
  begun.raise(7);
  EXPECT_TRUE(begun.has(7));
  EXPECT_FALSE(begun.has(8));
}

TEST(Begun, SingleNumbersBeyondARaisedOneAreThoseAlone) {
  BegunCalls begun;
  begun.add(6);
  begun.add(9);
  begun.raise(7);
  begun.add(7);
  begun.add(10);
  for (std::uint64_t number : {1, 7, 9, 10}) EXPECT_TRUE(begun.has(number)) << number;
  for (std::uint64_t number : {8, 11}) EXPECT_FALSE(begun.has(number)) << number;
  begun.raise(600);
  begun.add(1000);
  for (std::uint64_t number : {6 + 512, 9 + 512}) EXPECT_TRUE(begun.has(number)) << "below what was raised";
  for (std::uint64_t number = 601; number < 1000; ++number) EXPECT_FALSE(begun.has(number)) << number;
  EXPECT_TRUE(begun.has(1000));
}

/// BG-1 whatever the order; BG-2 as long as nobody is a window ahead.
TEST(Begun, NeverForgetsAndInventsNothingWithinItsWindow) {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    SharedBegun shared;
    std::set<std::uint64_t> noted;
    std::uint64_t first_open = 1;
    for (int step = 0; step < 3000; ++step) {
      const std::uint64_t ahead = random() % (step % 3 == 0 ? kBegunWindow : 4);
      const std::uint64_t number = first_open + ahead;
      shared.note(number);
      noted.insert(number);
      while (noted.contains(first_open)) ++first_open;
      const BegunCalls begun = shared.snapshot();
      for (std::uint64_t n = first_open > 40 ? first_open - 40 : 1; n < first_open + kBegunWindow + 8; ++n)
        ASSERT_EQ(begun.has(n), noted.contains(n)) << "seed " << seed << " step " << step << " number " << n;
    }
  }
}

TEST(Begun, BG2_TheWindowIsOneShortOfWhatWouldPushTheFirstOut) {
  SharedBegun shared;
  shared.note(kBegunWindow);
  EXPECT_FALSE(shared.snapshot().has(1));
  shared.note(kBegunWindow + 1);
  EXPECT_TRUE(shared.snapshot().has(1));
}

TEST(Begun, WhatIsLeftFarBehindCountsAsBegun) {
  SharedBegun shared;
  shared.note(1);
  shared.note(2000);
  const BegunCalls begun = shared.snapshot();
  EXPECT_TRUE(begun.has(1));
  EXPECT_TRUE(begun.has(2)) << "not known: it counts as begun";
  EXPECT_FALSE(begun.has(2000 - kBegunWindow + 1));
  EXPECT_TRUE(begun.has(2000));
  EXPECT_FALSE(begun.has(2001));
}

}  // namespace
}  // namespace troupe::net
