// MU-1: together where they come together, and nobody is kept out by one that never comes.
#include <gtest/gtest.h>

#include "apps/train/program/muster.h"

namespace troupe::train {
namespace {

using std::chrono::milliseconds;

TEST(TrainMuster, AllThatAreReadyAreAnnouncedAtOnce) {
  Muster::TimePoint now{};
  Muster muster;
  EXPECT_FALSE(muster.look(now, 0, 0)) << "there are none";
  EXPECT_FALSE(muster.look(now, 0, 2));
  EXPECT_FALSE(muster.look(now += milliseconds(100), 1, 2)) << "the second one may come";
  EXPECT_TRUE(muster.look(now += milliseconds(100), 2, 2));
}

TEST(TrainMuster, OneThatNeverComesKeepsNobodyOut) {
  Muster::TimePoint now{};
  Muster muster;
  EXPECT_FALSE(muster.look(now += std::chrono::hours(1), 0, 2)) << "nobody waits yet";
  EXPECT_FALSE(muster.look(now, 1, 2));
  EXPECT_FALSE(muster.look(now += Muster::kPatience - milliseconds(1), 1, 2));
  EXPECT_TRUE(muster.look(now += milliseconds(1), 1, 2));
  // It was taken in, and the next one begins to wait when it is ready itself.
  EXPECT_FALSE(muster.look(now += milliseconds(100), 0, 1));
  EXPECT_FALSE(muster.look(now += std::chrono::hours(1), 1, 2));
}

}  // namespace
}  // namespace troupe::train
