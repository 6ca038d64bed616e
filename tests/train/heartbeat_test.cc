// HB-1: silence is what was listened to.
#include <gtest/gtest.h>

#include "apps/train/program/heartbeat.h"

namespace troupe::train {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(TrainHeartbeat, ARankThatDoesNotAnswerIsFrozenAtTheLimit) {
  Heartbeat::TimePoint now{};
  Heartbeat heart(seconds(3), now);
  for (int i = 0; i < 29; ++i) heart.look(now += milliseconds(100), false);
  EXPECT_FALSE(heart.frozen());
  heart.look(now += milliseconds(100), false);
  EXPECT_TRUE(heart.frozen());
  heart.look(now += milliseconds(100), true);
  EXPECT_FALSE(heart.frozen());
}

TEST(TrainHeartbeat, ADriverThatWasStoppedItselfBlamesNobody) {
  Heartbeat::TimePoint now{};
  Heartbeat heart(seconds(3), now);
  heart.look(now += std::chrono::hours(1), false);
  EXPECT_FALSE(heart.frozen());
  heart.look(now += milliseconds(1), true);
  EXPECT_FALSE(heart.frozen());
}

}  // namespace
}  // namespace troupe::train
