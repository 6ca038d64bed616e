// SIL-1 and SIL-2 of net/link/silence.h.
#include <gtest/gtest.h>

#include "core/net/link/silence.h"

namespace troupe::net {
namespace {

using namespace std::chrono_literals;

struct Clock {
  SilenceClock silence{200ms};
  SilenceClock::Time now{1h};
  void look_for(Duration span) {
    for (Duration passed{}; passed < span; passed += 200ms) silence.look(now += 200ms);
  }
};

TEST(Silence, SIL2_IsWhatTheKernelSaysWhileTheLooksComeInTime) {
  Clock clock;
  clock.look_for(10s);
  EXPECT_EQ(clock.silence.counted(7s), 7s);
  clock.silence.look(clock.now += 500ms);  // a little late
  EXPECT_EQ(clock.silence.counted(8s), 8s);
}

TEST(Silence, SIL1_TimeInWhichThisProcessStoodStillCountsForNobody) {
  Clock clock;
  clock.look_for(1s);
  clock.silence.look(clock.now += 1min);  // SIGSTOP, a suspended machine
  EXPECT_EQ(clock.silence.counted(61s), 0s) << "they get their whole time again";
  clock.look_for(4s);
  EXPECT_EQ(clock.silence.counted(65s), 4s);
  EXPECT_EQ(clock.silence.counted(1s), 1s) << "who was heard since is as silent as it is";
  clock.look_for(1s);
  EXPECT_EQ(clock.silence.counted(66s), 5s) << "a peer that stays silent is seen all the same";
}

TEST(Silence, SIL1_AProcessThatIsAlwaysLateBlamesNobody) {
  Clock clock;
  clock.look_for(1s);
  for (int i = 0; i < 50; ++i) {
    clock.silence.look(clock.now += 700ms);
    EXPECT_EQ(clock.silence.counted(30s), 0s);
  }
}

TEST(Silence, NoLooksWithoutLinksIsNoGap) {
  Clock clock;
  clock.look_for(1s);
  clock.silence.pause();
  clock.silence.look(clock.now += 1h);
  EXPECT_EQ(clock.silence.counted(3s), 3s);
}

}  // namespace
}  // namespace troupe::net
