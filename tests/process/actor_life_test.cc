// ActorLife by itself: words of the head and notices of deaths in, decisions out.
#include <gtest/gtest.h>

#include "core/caller/actor_life.h"

namespace troupe::worker {
namespace {

const ProcessId kOld{1, 7}, kNew{2, 8};

wire::ActorLocation word(wire::ActorState state, ProcessId process = {}) {
  wire::ActorLocation location;
  location.state = state;
  location.process = process;
  return location;
}

ActorLife alive_at(ProcessId process) {
  ActorLife life;
  EXPECT_EQ(life.heard(word(wire::ActorState::kAlive, process), {}), ActorLife::Next::kResend);
  EXPECT_TRUE(life.reachable());
  return life;
}

TEST(ActorLife, CAC7_TheHeadsWordWaitsForTheDeathNotice) {
  ActorLife life = alive_at(kOld);
  const ActorLife::Known calls_there{.answers_due = true};
  const auto restarting = word(wire::ActorState::kRestarting);
  EXPECT_TRUE(life.must_wait(restarting, calls_there));
  EXPECT_EQ(life.heard(restarting, calls_there), ActorLife::Next::kNothing) << "nobody knows what had begun";
  EXPECT_EQ(life.heard(word(wire::ActorState::kAlive, kNew), calls_there), ActorLife::Next::kFlush);
  EXPECT_FALSE(life.reachable()) << "not yet: the calls in the old process go first";
  EXPECT_EQ(life.process(), kOld) << "whose notice is awaited";
  EXPECT_TRUE(life.lost_process(nullptr)) << "now the word is followed";
  life.follow(false);
  EXPECT_EQ(life.process(), kNew);
  EXPECT_TRUE(life.reachable());
}

TEST(ActorLife, CAC7_NothingWaitsWhereAllIsKnown) {
  const auto restarting = word(wire::ActorState::kRestarting);
  for (const ActorLife::Known& known :
       {ActorLife::Known{}, ActorLife::Known{.answers_due = true, .old_is_dead = true}}) {
    ActorLife life = alive_at(kOld);
    EXPECT_FALSE(life.must_wait(restarting, known));
    EXPECT_EQ(life.heard(restarting, known), ActorLife::Next::kResend);
  }
  ActorLife noticed = alive_at(kOld);
  EXPECT_FALSE(noticed.lost_process(nullptr)) << "the notice came first: the head's word is awaited";
  EXPECT_FALSE(noticed.must_wait(restarting, {.answers_due = true}));
}

TEST(ActorLife, CAC7_ALightActorsEndDecidesAtOnce) {
  const ActorLife::Known light{.answers_due = true, .light = true};
  ActorLife ended = alive_at(kOld);
  EXPECT_FALSE(ended.must_wait(word(wire::ActorState::kDead), light)) << "its host still answers each call";
  ActorLife restarts = alive_at(kOld);
  EXPECT_TRUE(restarts.must_wait(word(wire::ActorState::kRestarting), light));
  EXPECT_TRUE(restarts.stop_waiting()) << "the last answer came";
  EXPECT_FALSE(restarts.stop_waiting()) << "once";
}

TEST(ActorLife, AProcessThatDiesTakesNoCallsUntilTheHeadsWord) {
  ActorLife life = alive_at(kOld);
  EXPECT_FALSE(life.lost_process(make_error<ActorDiedError>("its process died")));
  EXPECT_FALSE(life.reachable());
  EXPECT_EQ(life.last_death()->message(), "its process died");
  EXPECT_EQ(life.heard(word(wire::ActorState::kAlive, kNew), {.new_is_dead = true}), ActorLife::Next::kResend);
  EXPECT_FALSE(life.reachable()) << "that one has died as well";
  EXPECT_EQ(life.heard(word(wire::ActorState::kDead), {}), ActorLife::Next::kDie);
}

}  // namespace
}  // namespace troupe::worker
