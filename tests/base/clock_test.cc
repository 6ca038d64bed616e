#include "core/base/clock.h"

#include <array>

#include <gtest/gtest.h>

#include "core/base/random.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

TEST(ManualClock, MovesOnlyWhenAdvanced) {
  ManualClock clock(5s);
  const TimePoint start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(3ms);
  EXPECT_EQ(clock.now() - start, 3ms);
}

TEST(ManualClockDeathTest, RefusesToGoBack) {  // CLK-1
  ManualClock clock;
  EXPECT_DEATH(clock.advance(-1ns), "CLK-1");
}

TEST(SteadyClock, NeverGoesBack) {
  SteadyClock clock;
  const TimePoint first = clock.now();
  EXPECT_GE(clock.now(), first);
}

TEST(Deadline, OfForeverIsNeverReachedAndDoesNotOverflow) {
  const TimePoint now(1000h);
  EXPECT_EQ(deadline_after(now, kForever), TimePoint::max());
  EXPECT_EQ(deadline_after(now, kForever - 1ns), TimePoint::max());
  EXPECT_EQ(deadline_after(now, 5s), now + 5s);
  EXPECT_EQ(time_left(now, TimePoint::max()), kForever);
  EXPECT_EQ(time_left(now, now + 5s), 5s);
  EXPECT_EQ(time_left(now + 6s, now + 5s), 0s);
}

// The reference output of pcg32's own demonstration, seed 42, stream 54.
TEST(Random, IsPcg32) {
  Random random(42, 54);
  for (const std::uint32_t expected : {0xa15c02b7u, 0x7b47f409u, 0xba1d3330u, 0x83d2f293u, 0xbfa4784bu, 0xcbed606eu}) {
    EXPECT_EQ(random(), expected);
  }
}

TEST(Random, ReplaysFromItsSeedAndDiffersByStream) {
  Random a(7), b(7), other(7, 1);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const auto x = a.next64();
    EXPECT_EQ(x, b.next64());
    differs |= x != other.next64();
  }
  EXPECT_TRUE(differs);
}

TEST(Random, StaysInItsBounds) {
  Random random(1);
  std::array<int, 6> seen{};
  for (int i = 0; i < 6000; ++i) {
    ++seen.at(random.below(6));
    const double u = random.unit();
    EXPECT_TRUE(u >= 0 && u < 1);
  }
  for (const int n : seen) EXPECT_GT(n, 800);
  EXPECT_EQ(random.below(0), 0u);
  EXPECT_EQ(random.below(1), 0u);
  EXPECT_FALSE(random.chance(0));
  EXPECT_TRUE(random.chance(1));
}

}  // namespace
}  // namespace troupe
