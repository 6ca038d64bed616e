// Who is told of an actor, by itself (AQ-1 to AQ-3). Through the head: actors_test.cc.
#include "core/head/state/actors/actor_questions.h"

#include <gtest/gtest.h>

namespace troupe::head {
namespace {

using namespace std::chrono_literals;
using wire::Method;
using Subscribers = ActorQuestions::Subscribers;

const ProcessId kDriver{1, 1}, kOther{1, 2}, kFar{2, 1};
const ActorId kActor{kDriver, 1}, kAnother{kDriver, 2};

class ActorQuestionsTest : public ::testing::Test {
 protected:
  std::vector<Send> sent() {
    std::vector<Send> list;
    for (Effect& effect : effects_.take()) list.push_back(std::get<Send>(std::move(effect)));
    return list;
  }
  static DeadActor dead(ActorId id) {
    DeadActor result;
    result.id = id;
    result.death.message = "it was killed by kill()";
    return result;
  }
  static wire::ActorLocation alive(ActorId id) { return {id, wire::ActorState::kAlive, {1, 9}, 0, std::nullopt}; }

  Effects effects_;
  Turn turn_{1h, effects_};
  ActorQuestions questions_;
};

TEST_F(ActorQuestionsTest, AQ1_ASubscriberHearsEachMoveOnceAndTheDeathAsTheLast) {
  questions_.subscribe(kDriver, kActor);
  questions_.subscribe(kDriver, kActor);
  questions_.moved(turn_, alive(kActor));
  questions_.moved(turn_, alive(kAnother));
  questions_.died(turn_, dead(kActor), Subscribers::kTell);
  questions_.moved(turn_, alive(kActor));
  const std::vector<Send> told = sent();
  ASSERT_EQ(told.size(), 2u);
  for (const Send& one : told) EXPECT_EQ(one.method, Method::kActorMoved);
  EXPECT_EQ(std::get<wire::ActorLocation>(told[0].body).state, wire::ActorState::kAlive);
  EXPECT_EQ(std::get<wire::ActorLocation>(told[1].body).state, wire::ActorState::kDead);
  EXPECT_FALSE(questions_.has_subscribers(kActor));
  EXPECT_TRUE(questions_.subscribers().empty());
}

TEST_F(ActorQuestionsTest, AQ1_SubscribersThatKnowOfADeathAreNotToldAgain) {
  questions_.subscribe(kDriver, kActor);
  questions_.monitor({kOther, 7}, kActor);
  questions_.died(turn_, dead(kActor), Subscribers::kKnowAlready);
  const std::vector<Send> told = sent();
  ASSERT_EQ(told.size(), 1u) << "the monitor, which waits for this";
  EXPECT_EQ(told[0].token, 7u);
  EXPECT_FALSE(questions_.has_subscribers(kActor));
}

TEST_F(ActorQuestionsTest, AQ2_AMonitorIsAnsweredOnceAtTheDeath) {
  questions_.monitor({kDriver, 7}, kActor);
  questions_.moved(turn_, alive(kActor));
  EXPECT_TRUE(sent().empty());
  questions_.died(turn_, dead(kActor), Subscribers::kTell);
  questions_.died(turn_, dead(kActor), Subscribers::kTell);
  const std::vector<Send> told = sent();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].kind, wire::FrameKind::kResponse);
  EXPECT_EQ(std::get<ActorDeath>(told[0].body).message, "it was killed by kill()");
}

TEST_F(ActorQuestionsTest, AQ2_TheDeadAreToldNothing) {
  questions_.subscribe(kOther, kActor);
  questions_.monitor({kOther, 7}, kActor);
  questions_.monitor({kFar, 8}, kActor);
  questions_.process_died(kOther);
  questions_.node_died(kFar.node);
  questions_.died(turn_, dead(kActor), Subscribers::kTell);
  EXPECT_TRUE(sent().empty());
}

TEST_F(ActorQuestionsTest, AQ3_WhatIsTakenInTimeIsNotAnswered) {
  questions_.park(turn_, kActor, {{kDriver, 7}, Method::kResolveActor});
  questions_.park(turn_, kActor, {{kOther, 8}, Method::kKillActor, true});
  const auto taken = questions_.take(kActor);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].caller.token, 7u);
  EXPECT_TRUE(taken[1].restart);
  EXPECT_TRUE(questions_.take(kActor).empty());
  turn_.now += kUnknownGrace;
  questions_.on_time(turn_, [](ActorId) { return false; });
  EXPECT_TRUE(sent().empty());
  EXPECT_FALSE(questions_.next_deadline());
}

TEST_F(ActorQuestionsTest, AQ3_WhatNobodyCreatesIsAnsweredAfterItsGrace) {
  questions_.park(turn_, kActor, {{kDriver, 7}, Method::kResolveActor});
  questions_.park(turn_, kActor, {{kDriver, 8}, Method::kMonitorActor});
  questions_.park(turn_, kActor, {{kDriver, 9}, Method::kKillActor});
  ASSERT_EQ(questions_.next_deadline(), turn_.now + kUnknownGrace);
  turn_.now += kUnknownGrace - 1ns;
  questions_.on_time(turn_, [](ActorId) { return false; });
  EXPECT_TRUE(sent().empty());
  turn_.now += 1ns;
  questions_.on_time(turn_, [](ActorId) { return false; });
  const std::vector<Send> told = sent();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(std::get<wire::ActorLocation>(told[0].body).state, wire::ActorState::kDead);
  EXPECT_EQ(std::get<ErrorRecord>(told[1].body).code, ErrorCode::kNotFound);
  EXPECT_TRUE(std::holds_alternative<wire::Empty>(told[2].body)) << "killing the dead is no error";
  EXPECT_TRUE(questions_.take(kActor).empty());
}

TEST_F(ActorQuestionsTest, AQ3_OneThatIsParkedAnewHasItsWholeGrace) {
  questions_.park(turn_, kActor, {{kDriver, 7}, Method::kResolveActor});
  questions_.take(kActor);
  turn_.now += kUnknownGrace / 2;
  questions_.park(turn_, kActor, {{kDriver, 8}, Method::kResolveActor});
  turn_.now += kUnknownGrace / 2;
  questions_.on_time(turn_, [](ActorId) { return false; });
  EXPECT_TRUE(sent().empty()) << "that was the deadline of the first";
  turn_.now += kUnknownGrace / 2;
  questions_.on_time(turn_, [](ActorId) { return false; });
  EXPECT_EQ(sent().size(), 1u);
}

TEST_F(ActorQuestionsTest, AQ3_WhatIsAskedOfOneThatIsAboutToBeCreatedWaitsOn) {
  const auto is_begun = [](ActorId actor) { return actor == kActor; };
  for (const ActorId actor : {kActor, kAnother}) {
    questions_.park(turn_, actor, {{kDriver, 7}, Method::kResolveActor});
    questions_.park(turn_, actor, {{kDriver, 8}, Method::kKillActor, true});
  }
  turn_.now += kUnknownGrace;
  questions_.on_time(turn_, is_begun);
  EXPECT_EQ(sent().size(), 3u) << "all but one";
  turn_.now += kUnknownGrace;
  questions_.on_time(turn_, is_begun);
  EXPECT_TRUE(sent().empty());
  const auto left = questions_.take(kActor);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].method, Method::kResolveActor);
}

}  // namespace
}  // namespace troupe::head
