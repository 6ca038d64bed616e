// For which request what becomes free is kept (keeper.h).
#include "scheduler/keeper.h"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

using namespace std::chrono_literals;

struct KeeperTest : testing::Test {
  Keeper keeper{{.first = 500ms, .most = 1500ms}};
  TimePoint now = TimePoint{} + 1h;

  /// How long it is kept for.
  Duration window(Keeper::Request request) {
    keeper.keep_for(request, now);
    Duration span{};
    while (!keeper.vacant(now + span)) span += 100ms;
    now += span;
    return span;
  }
};

TEST_F(KeeperTest, KEP1_OneAtATime) {
  EXPECT_TRUE(keeper.vacant(now));
  keeper.keep_for(1, now);
  EXPECT_FALSE(keeper.vacant(now + 499ms));
  EXPECT_TRUE(keeper.keeps_for(1));
  EXPECT_FALSE(keeper.keeps_for(2));
  keeper.stop(2);
  EXPECT_EQ(keeper.request(), 1u);
  EXPECT_TRUE(keeper.vacant(now + 500ms));
  EXPECT_EQ(keeper.request(), std::nullopt);
}

TEST_F(KeeperTest, KEP2_RestsForAsLongAsItWasKeptForInGrowingTimes) {
  for (const Duration expected : {500ms, 1000ms, 1500ms, 1500ms}) {
    EXPECT_EQ(window(1), expected);
    EXPECT_TRUE(keeper.rests(1, now + expected - 1ms));
    EXPECT_FALSE(keeper.rests(1, now + expected));
    EXPECT_FALSE(keeper.rests(2, now));
    now += expected;
  }
}

TEST_F(KeeperTest, AfterAPlaceItsWindowIsTheFirstAgain) {
  EXPECT_EQ(window(1), 500ms);
  keeper.keep_for(1, now);
  keeper.progressed(1);
  EXPECT_TRUE(keeper.vacant(now));
  EXPECT_EQ(window(1), 500ms);
  keeper.keep_for(1, now);
  keeper.stop(1);  // without one
  EXPECT_EQ(window(1), 1500ms);
  keeper.keep_for(1, now);
  keeper.forget(1);
  EXPECT_TRUE(keeper.vacant(now));
  EXPECT_FALSE(keeper.rests(1, now));
  EXPECT_EQ(window(1), 500ms);
}

}  // namespace
}  // namespace troupe::sched
