// Handles and scopes: who holds what, and what happens when nobody does (AC-4, HC-1 to HC-4); light actors.
#include "head_fixture.h"

namespace troupe::head {
namespace {

using HandlesTest = OneNode;
const ProcessId kWorker{1, 10}, kBorrower{1, 20}, kHost{1, 30};

wire::LightActors batch(ProcessId host, JobId job, std::vector<ActorId> started, std::vector<ActorId> ended = {}) {
  wire::LightActors report;
  report.process = host;
  report.job = job;
  report.class_name = "Cell";
  report.started = std::move(started);
  report.ended = std::move(ended);
  return report;
}

TEST_F(HandlesTest, TheLastHandleGoneTellsTheActorToFinish) {
  ActorId id = live(spec(driver_, job_), kWorker);
  hold_handle(kBorrower, id);
  drop_handle(driver_, id);
  EXPECT_TRUE(notices<wire::ResolveActor>(kWorker, Method::kActorHandlesGone).empty()) << "the borrower still holds it";
  drop_handle(kBorrower, id);
  auto gone = notices<wire::ResolveActor>(kWorker, Method::kActorHandlesGone);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].actor, id);
  exited(id, kWorker, DeathCause::kFinished);
  auto death = ask<ActorDeath>(driver_, Method::kMonitorActor, wire::ResolveActor{id});
  EXPECT_EQ(death.cause, DeathCause::kFinished);
  EXPECT_NE(death.message.find("last handle"), std::string::npos);
}

TEST_F(HandlesTest, RepeatedReportsCountOnce) {
  ActorId id = live(spec(driver_, job_), kWorker);
  hold_handle(driver_, id);
  hold_handle(driver_, id);
  EXPECT_EQ(state_.actors().holders(id), 1u);
  drop_handle(kBorrower, id);  // never held it
  EXPECT_EQ(state_.actors().holders(id), 1u) << "HC-1";
  drop_handle(driver_, id);
  drop_handle(driver_, id);
  EXPECT_EQ(notices<wire::ResolveActor>(kWorker, Method::kActorHandlesGone).size(), 1u);
}

TEST(Holds, HC4_ADeadActorIsHeldByNobody) {
  const ProcessId maker{1, 1}, borrower{1, 2};
  const ActorId dead{maker, 1}, living{maker, 2};
  Holds holds;
  for (ActorId id : {dead, living}) {
    EXPECT_TRUE(holds.created(id));
    EXPECT_TRUE(holds.hold(borrower, id));
  }
  holds.forget(dead);
  EXPECT_FALSE(holds.holds(maker, dead) || holds.holds(borrower, dead));
  EXPECT_EQ(holds.holders(living), 2u);
  holds.forget(living);
  EXPECT_TRUE(holds.processes().empty()) << "also of a process that never says that it dropped it";
}

TEST_F(HandlesTest, HC4_WhatIsSaidOfADeadActorIsKeptNowhere) {
  ActorId id = live(spec(driver_, job_), kWorker);
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{id, false});
  crash(kWorker);
  hold_handle(kBorrower, id);
  EXPECT_EQ(state_.actors().holders(id), 0u);
  drop_handle(kBorrower, id);
  drop_handle(driver_, id);
  EXPECT_EQ(state_.actors().holders(id), 0u);
}

TEST_F(HandlesTest, ADeadHolderHoldsNothing) {
  ActorId id = live(spec(driver_, job_), kWorker);
  hold_handle(kBorrower, id);
  drop_handle(driver_, id);
  crash(kBorrower);
  EXPECT_EQ(state_.actors().holders(id), 0u) << "HC-2";
  pass(kOrphanGrace);
  EXPECT_EQ(notices<wire::ResolveActor>(kWorker, Method::kActorHandlesGone).size(), 1u) << "AC-4";
  ask<wire::Empty>(driver_, Method::kHandleCounts, wire::HandleCounts{kBorrower, {id}, {}});  // said too late
  EXPECT_EQ(state_.actors().holders(id), 0u);
}

TEST_F(HandlesTest, AHandleThatADeadHolderHadSentIsCountedInTime) {
  ActorId id = live(spec(driver_, job_), kWorker);
  hold_handle(kBorrower, id);
  drop_handle(driver_, id);
  crash(kBorrower);
  pass(kOrphanGrace / 2);
  hold_handle(driver_, id);  // the frame and the count came after the news of the sender's death
  pass(kOrphanGrace);
  EXPECT_EQ(notices<wire::ResolveActor>(kWorker, Method::kActorHandlesGone).size(), 0u) << "AC-4";
  drop_handle(driver_, id);
  EXPECT_EQ(notices<wire::ResolveActor>(kWorker, Method::kActorHandlesGone).size(), 1u);
}

TEST_F(HandlesTest, ANodesDeathDropsWhatItsProcessesHeld) {
  std::uint32_t second = join(4);
  ActorId id = live(spec(driver_, job_), kWorker);
  hold_handle({second, 5}, id);
  drop_handle(driver_, id);
  lose_link(second);
  pass(300ms + kOrphanGrace);
  EXPECT_EQ(notices<wire::ResolveActor>(kWorker, Method::kActorHandlesGone).size(), 1u);
}

TEST_F(HandlesTest, DroppedBeforeTheStartItIsToldAfterwards) {
  wire::ActorSpec counter = spec(driver_, job_);
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, counter);
  auto start = starts(1);
  drop_handle(driver_, counter.id);
  started(start[0], kWorker);
  EXPECT_EQ(notices<wire::ResolveActor>(kWorker, Method::kActorHandlesGone).size(), 1u)
      << "its constructor runs, then it ends";
}

TEST_F(HandlesTest, DroppedWhileItWaitsForAPlaceItEnds) {
  wire::ActorSpec large = spec(driver_, job_);
  large.resources.cpus = 99;
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, large);
  drop_handle(driver_, large.id);
  EXPECT_EQ(where(driver_, large.id).state, wire::ActorState::kDead);
}

TEST_F(HandlesTest, WithoutHoldersItIsNotRestarted) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = kNoLimit;
  live(counter, kWorker);
  drop_handle(driver_, counter.id);
  crash(kWorker);
  pass(1min);
  EXPECT_TRUE(starts(1).empty()) << "AC-4";
}

TEST_F(HandlesTest, ADetachedActorNeedsNoHandle) {
  wire::ActorSpec counter = spec(driver_, job_, "d");
  counter.lifetime = Lifetime::kDetached;
  live(counter, kWorker);
  drop_handle(driver_, counter.id);
  EXPECT_TRUE(notices<wire::ResolveActor>(kWorker, Method::kActorHandlesGone).empty());
  EXPECT_EQ(where(driver_, counter.id).state, wire::ActorState::kAlive);
}

TEST_F(HandlesTest, ALightBatchIsAliveAndHeldByItsMaker) {
  ActorId a{driver_, 501}, b{driver_, 502};
  notice(kHost, Method::kLightActors, batch(kHost, job_, {a, b}));
  EXPECT_EQ(where(kBorrower, a).process, kHost);
  EXPECT_EQ(state_.actors().holders(a), 1u);
  EXPECT_EQ(row(a)["class_name"], "Cell");
  drop_handle(driver_, a);
  auto gone = notices<wire::ResolveActor>(kHost, Method::kActorHandlesGone);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].actor, a);
  notice(kHost, Method::kLightActors, batch(kHost, job_, {}, {a}));
  EXPECT_EQ(state_.actors().state_of(a), wire::ActorState::kDead);
  EXPECT_EQ(state_.actors().state_of(b), wire::ActorState::kAlive);
}

TEST_F(HandlesTest, AMakerThatDroppedBeforeTheBatchArrivedHoldsNothing) {
  ActorId a{driver_, 501};
  drop_handle(driver_, a);
  notice(kHost, Method::kLightActors, batch(kHost, job_, {a}));
  EXPECT_EQ(notices<wire::ResolveActor>(kHost, Method::kActorHandlesGone).size(), 1u) << "HC-3";
}

TEST_F(HandlesTest, ABorrowerThatHeldBeforeTheBatchArrivedCounts) {
  ActorId a{driver_, 501};
  hold_handle(kBorrower, a);
  drop_handle(driver_, a);
  notice(kHost, Method::kLightActors, batch(kHost, job_, {a}));
  EXPECT_TRUE(notices<wire::ResolveActor>(kHost, Method::kActorHandlesGone).empty());
  EXPECT_EQ(state_.actors().holders(a), 1u);
}

TEST_F(HandlesTest, AC7_WhatAHostHasNotToldOfIsKilledAndMonitoredWhereItLives) {
  const ActorId a{driver_, 501};
  const wire::LightHome home{kHost, job_, "Cell"};
  const std::uint64_t monitor = request(kBorrower, Method::kMonitorActor, wire::ResolveActor{a, home});
  EXPECT_FALSE(answer(kBorrower, monitor).has_value()) << "it lives";
  EXPECT_EQ(row(a)["class_name"], "Cell");
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{a, false, home});
  auto ends = notices<wire::EndActor>(kHost, Method::kEndActor);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_TRUE(ends[0].unheard) << "the construction may come there later (HO-9)";
  const auto death = answer(kBorrower, monitor);
  ASSERT_TRUE(death.has_value());
  EXPECT_EQ(std::get<ActorDeath>(*death).cause, DeathCause::kKilled);
  EXPECT_EQ(state_.actors().state_of(a), wire::ActorState::kDead);
  notice(kHost, Method::kLightActors, batch(kHost, job_, {a}));
  EXPECT_EQ(state_.actors().state_of(a), wire::ActorState::kDead);
  EXPECT_EQ(notices<wire::EndActor>(kHost, Method::kEndActor).size(), 1u) << "its host tells of it: it is to end";
}

TEST_F(HandlesTest, AC7_AHostHearsAgainThatTheLastHandleIsGone) {
  const ActorId a{driver_, 501};
  request(driver_, Method::kMonitorActor, wire::ResolveActor{a, {kHost, job_, "Cell"}});
  drop_handle(driver_, a);
  EXPECT_EQ(notices<wire::ResolveActor>(kHost, Method::kActorHandlesGone).size(), 1u) << "perhaps too early";
  notice(kHost, Method::kLightActors, batch(kHost, job_, {a}));
  EXPECT_EQ(notices<wire::ResolveActor>(kHost, Method::kActorHandlesGone).size(), 1u);
  notice(kHost, Method::kLightActors, batch(kHost, job_, {a}));
  EXPECT_TRUE(notices<wire::ResolveActor>(kHost, Method::kActorHandlesGone).empty()) << "once";
}

TEST_F(HandlesTest, AC7_AHostThatDiesBeforeItToldIsADeath) {
  const ActorId a{driver_, 501};
  const std::uint64_t monitor =
      request(driver_, Method::kMonitorActor, wire::ResolveActor{a, {kHost, job_, "Cell"}});
  crash(kHost);
  EXPECT_TRUE(answer(driver_, monitor).has_value());
  ask<ActorDeath>(driver_, Method::kMonitorActor, wire::ResolveActor{{driver_, 502}, {kHost, job_, "Cell"}});
}

TEST_F(HandlesTest, AC7_WhatWasKilledBeforeAnybodyKnewItDoesNotLive) {
  const ActorId light{driver_, 501};
  const wire::ActorSpec late = spec(driver_, job_);
  const std::uint64_t one = request(kBorrower, Method::kKillActor, wire::KillActor{light, false});
  const std::uint64_t two = request(kBorrower, Method::kKillActor, wire::KillActor{late.id, false});
  pass(kUnknownGrace);
  EXPECT_TRUE(answer(kBorrower, one).has_value());
  EXPECT_TRUE(answer(kBorrower, two).has_value());
  notice(kHost, Method::kLightActors, batch(kHost, job_, {light}));
  EXPECT_EQ(notices<wire::EndActor>(kHost, Method::kEndActor).size(), 1u);
  EXPECT_EQ(state_.actors().state_of(light), wire::ActorState::kDead);
  EXPECT_EQ(ask_error(driver_, Method::kCreateActor, late).code, ErrorCode::kActorDied);
  EXPECT_TRUE(starts(1).empty());
}

TEST_F(HandlesTest, AHostsCrashIsADeathForEachOfItsLightActors) {
  ActorId a{driver_, 501}, b{driver_, 502};
  notice(kHost, Method::kLightActors, batch(kHost, job_, {a, b}));
  where(driver_, a);
  std::uint64_t monitor = request(driver_, Method::kMonitorActor, wire::ResolveActor{b});
  crash(kHost, "killed by SIGSEGV (11)");
  auto moved = moves(driver_);
  ASSERT_EQ(moved.size(), 1u) << "only a was asked for";
  EXPECT_EQ(moved[0].state, wire::ActorState::kDead);
  auto death = answer(driver_, monitor);
  ASSERT_TRUE(death);
  EXPECT_NE(std::get<ActorDeath>(*death).message.find("SIGSEGV"), std::string::npos);
  EXPECT_EQ(std::get<ActorDeath>(*death).cause, DeathCause::kCrashed);
  notice(daemon_of(1), Method::kLightActors, batch(kHost, job_, {a}));
  EXPECT_EQ(state_.actors().state_of(a), wire::ActorState::kDead) << "a late report does not revive";
}

TEST_F(HandlesTest, ALightActorWhoseEndIsToldBeforeItsStartStaysDead) {
  ActorId a{driver_, 501};
  exited(a, kHost, DeathCause::kConstructorFailed, "", error_record(ErrorCode::kTask, "no"));
  notice(driver_, Method::kLightActors, batch(kHost, job_, {a}));
  EXPECT_EQ(where(driver_, a).error->message, "no");
  EXPECT_EQ(state_.actors().state_of(a), wire::ActorState::kDead);
}

TEST_F(HandlesTest, KillOfALightActorIsImmediate) {
  ActorId a{driver_, 501};
  notice(kHost, Method::kLightActors, batch(kHost, job_, {a}));
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{a, false});
  EXPECT_EQ(notices<wire::EndActor>(kHost, Method::kEndActor).size(), 1u);
  EXPECT_EQ(ask<ActorDeath>(driver_, Method::kMonitorActor, wire::ResolveActor{a}).cause, DeathCause::kKilled);
}

TEST_F(HandlesTest, DroppingAHandleEndsTheSubscription) {
  ActorId id = live(spec(driver_, job_), kWorker);
  hold_handle(kBorrower, id);
  where(kBorrower, id);
  drop_handle(kBorrower, id);
  crash(kWorker);
  EXPECT_TRUE(moves(kBorrower).empty());
  EXPECT_EQ(moves(driver_).size(), 1u);
}

}  // namespace
}  // namespace troupe::head
