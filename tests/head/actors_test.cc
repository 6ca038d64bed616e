// The life of actors: start, crash, restart within budgets, kill, death (AC-2, AC-3, SUP-1).
#include "head_fixture.h"

namespace troupe::head {
namespace {

using ActorsTest = OneNode;
const ProcessId kWorker{1, 10}, kWorker2{1, 11}, kWorker3{1, 12};

TEST_F(ActorsTest, CreationAnswersAtOnceAndSubscribersHearOfTheStart) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_task_retries = 3;
  const auto reply = ask<wire::CreateActorReply>(driver_, Method::kCreateActor, counter);
  EXPECT_EQ(reply.handle.actor, counter.id);
  EXPECT_EQ(reply.handle.max_task_retries, 3);
  EXPECT_FALSE(reply.existed);
  EXPECT_EQ(where(driver_, counter.id).state, wire::ActorState::kPending);
  auto start = starts(1);
  ASSERT_EQ(start.size(), 1u);
  EXPECT_EQ(start[0].spec.class_name, "Counter");
  started(start[0], kWorker);
  auto moved = moves(driver_);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].state, wire::ActorState::kAlive);
  EXPECT_EQ(moved[0].process, kWorker);
  EXPECT_EQ(where(driver_, counter.id).process, kWorker);
}

TEST_F(ActorsTest, ACreationAskedTwiceIsOneActor) {
  wire::ActorSpec counter = spec(driver_, job_);
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, counter);
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, counter);
  EXPECT_EQ(starts(1).size(), 1u);
}

TEST_F(ActorsTest, WithoutRestartsACrashIsDeathWithTheProcessesReason) {
  ActorId id = live(spec(driver_, job_), kWorker);
  std::uint64_t monitor = request(driver_, Method::kMonitorActor, wire::ResolveActor{id});
  EXPECT_FALSE(answer(driver_, monitor)) << "a monitor waits for the final death";
  crash(kWorker, "killed by SIGSEGV (11)");
  auto death = answer(driver_, monitor);
  ASSERT_TRUE(death);
  const auto& told = std::get<ActorDeath>(*death);
  EXPECT_EQ(told.cause, DeathCause::kCrashed);
  EXPECT_NE(told.message.find("SIGSEGV"), std::string::npos);
  EXPECT_EQ(told.pid, 4711);
  EXPECT_EQ(told.node, ids_[1]);
  auto moved = moves(driver_);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].state, wire::ActorState::kDead);
  ASSERT_TRUE(moved[0].error);
  EXPECT_EQ(moved[0].error->code, ErrorCode::kActorDied);
  EXPECT_EQ(moved[0].error->outcome, Outcome::kNotExecuted);
  EXPECT_EQ(row(id)["state"], "DEAD");
}

TEST_F(ActorsTest, MonitorOfTheDeadIsAnsweredAtOnce) {
  ActorId id = live(spec(driver_, job_), kWorker);
  crash(kWorker);
  EXPECT_EQ(ask<ActorDeath>(driver_, Method::kMonitorActor, wire::ResolveActor{id}).cause, DeathCause::kCrashed);
  EXPECT_EQ(where(driver_, id).state, wire::ActorState::kDead);
}

TEST_F(ActorsTest, RestartsAfterItsBackoffWithItsFirstArgumentsAndCountsThem) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = 2;
  counter.arguments.body = {std::byte{1}, std::byte{2}};
  ActorId id = live(counter, kWorker);
  crash(kWorker);
  auto moved = moves(driver_);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].state, wire::ActorState::kRestarting);
  EXPECT_EQ(moved[0].restarts, 1);
  ASSERT_TRUE(moved[0].error);
  EXPECT_EQ(moved[0].error->outcome, Outcome::kUnknown);
  pass(49ms);
  EXPECT_TRUE(starts(1).empty()) << "before the back-off is over";
  pass(1ms);
  auto start = starts(1);
  ASSERT_EQ(start.size(), 1u);
  EXPECT_EQ(start[0].restarts, 1);
  EXPECT_EQ(start[0].spec.arguments.body.size(), 2u);
  started(start[0], kWorker2);
  EXPECT_EQ(where(driver_, id).process, kWorker2);
  EXPECT_EQ(row(id)["restarts"], "1");
}

TEST_F(ActorsTest, MoreCrashesThanMaxRestartsWithinTheWindowAreDeathForGood) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = 2;
  ActorId id = live(counter, kWorker);
  for (std::uint32_t i = 0; i < 2; ++i) {
    crash({1, 10 + i});
    pass(1s);
    auto start = starts(1);
    ASSERT_EQ(start.size(), 1u) << i;
    started(start[0], {1, 11 + i});
  }
  crash({1, 12});
  auto death = ask<ActorDeath>(driver_, Method::kMonitorActor, wire::ResolveActor{id});
  EXPECT_EQ(death.restarts, 2);
  EXPECT_NE(death.message.find("max_restarts = 2"), std::string::npos) << death.message;
  pass(1min);
  EXPECT_TRUE(starts(1).empty()) << "AC-3: DEAD is final";
}

TEST_F(ActorsTest, TheWindowForgetsOldCrashes) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = 1;
  counter.restart_window = 10s;
  ActorId id = live(counter, kWorker);
  for (std::uint32_t i = 0; i < 4; ++i) {
    crash({1, 10 + i});
    pass(10s);
    auto start = starts(1);
    ASSERT_EQ(start.size(), 1u) << i;
    started(start[0], {1, 11 + i});
    pass(1s);
  }
  EXPECT_EQ(row(id)["restarts"], "4");
}

TEST_F(ActorsTest, NoLimitMeansNoLimit) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = kNoLimit;
  live(counter, kWorker);
  for (std::uint32_t i = 0; i < 100; ++i) {
    crash({1, 10 + i});
    pass(11s);
    auto start = starts(1);
    ASSERT_EQ(start.size(), 1u) << i;
    started(start[0], {1, 11 + i});
  }
}

TEST_F(ActorsTest, ACheckpointOfTheLivingIncarnationGoesIntoTheNext) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = 5;
  ActorId id = live(counter, kWorker);
  auto checkpoint = [&](std::uint64_t number, int restarts) {
    wire::Checkpoint state;
    state.actor = id;
    state.restarts = restarts;
    state.number = number;
    return state;
  };
  notice(kWorker, Method::kCheckpoint, checkpoint(1, 0));
  notice(kWorker, Method::kCheckpoint, checkpoint(2, 0));
  notice(kWorker, Method::kCheckpoint, checkpoint(1, 0));
  notice(kWorker2, Method::kCheckpoint, checkpoint(9, 0));  // not its process
  crash(kWorker);
  notice(kWorker, Method::kCheckpoint, checkpoint(3, 0));   // too late
  pass(1s);
  auto start = starts(1);
  ASSERT_EQ(start.size(), 1u);
  ASSERT_TRUE(start[0].checkpoint);
  EXPECT_EQ(start[0].checkpoint->number, 2u);
}

TEST_F(ActorsTest, AConstructorThatThrowsIsDeadForGoodAndCallsCarryItsError) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = 5;
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, counter);
  starts(1);
  ErrorRecord error = error_record(ErrorCode::kTask, "start must be positive");
  exited(counter.id, kWorker, DeathCause::kConstructorFailed, "", error);
  auto moved = moves(driver_);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].state, wire::ActorState::kDead);
  EXPECT_EQ(moved[0].error->code, ErrorCode::kTask);
  EXPECT_EQ(moved[0].error->message, "start must be positive");
  auto death = ask<ActorDeath>(driver_, Method::kMonitorActor, wire::ResolveActor{counter.id});
  EXPECT_EQ(death.cause, DeathCause::kConstructorFailed);
  EXPECT_EQ(death.message, "start must be positive");
  pass(1min);
  EXPECT_TRUE(starts(1).empty());
}

TEST_F(ActorsTest, AConstructorThatCrashesCountsAsACrashAndIsNamed) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = 1;
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, counter);
  ASSERT_EQ(starts(1).size(), 1u);
  crash(kWorker, "killed by SIGABRT (6)", counter.id, 0);
  pass(1s);
  ASSERT_EQ(starts(1).size(), 1u);
  // The second time the daemon told beforehand which process it would be.
  notice(daemon_of(1), Method::kActorPlaced, wire::ActorStarted{counter.id, 1, kWorker2, 4712});
  crash(kWorker2, "killed by SIGABRT (6)");
  auto death = ask<ActorDeath>(driver_, Method::kMonitorActor, wire::ResolveActor{counter.id});
  EXPECT_EQ(death.cause, DeathCause::kCrashed);
  EXPECT_NE(death.message.find("constructor of Counter"), std::string::npos) << death.message;
  EXPECT_NE(death.message.find("SIGABRT"), std::string::npos);
}

TEST_F(ActorsTest, StaleReportsChangeNothing) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = 5;
  ActorId id = live(counter, kWorker);
  crash(kWorker);
  pass(1s);
  auto start = starts(1);
  started(start[0], kWorker2);
  exited(id, kWorker, DeathCause::kFinished, "", {}, 0);   // the first life
  exited(id, kWorker3, DeathCause::kFinished, "", {}, 1);  // another process
  crash(kWorker);                                          // told twice
  EXPECT_EQ(where(driver_, id).state, wire::ActorState::kAlive);
  EXPECT_EQ(where(driver_, id).process, kWorker2);
}

TEST_F(ActorsTest, ASecondCopyIsKilled) {
  ActorId id = live(spec(driver_, job_), kWorker);
  notice(kWorker2, Method::kActorStarted, wire::ActorStarted{id, 0, kWorker2, 1});
  auto kills = notices<wire::KillProcess>(daemon_of(1), Method::kKillActorProcess);
  ASSERT_EQ(kills.size(), 1u) << "AC-2";
  EXPECT_EQ(kills[0].process, kWorker2);
  EXPECT_EQ(where(driver_, id).process, kWorker);
}

TEST_F(ActorsTest, ExitIsFinalEvenWithRestartsLeft) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = 5;
  ActorId id = live(counter, kWorker);
  exited(id, kWorker, DeathCause::kFinished);
  crash(kWorker, "exited with code 0");
  auto death = ask<ActorDeath>(driver_, Method::kMonitorActor, wire::ResolveActor{id});
  EXPECT_EQ(death.cause, DeathCause::kFinished);
  EXPECT_FALSE(death.message.empty()) << "GY-2";
  pass(1min);
  EXPECT_TRUE(starts(1).empty());
}

TEST_F(ActorsTest, KillTellsCallersAtOnceAndMonitorsWhenTheProcessIsGone) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = 5;
  ActorId id = live(counter, kWorker);
  std::uint64_t monitor = request(driver_, Method::kMonitorActor, wire::ResolveActor{id});
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{id, false});
  auto kills = notices<wire::KillProcess>(daemon_of(1), Method::kKillActorProcess);
  ASSERT_EQ(kills.size(), 1u);
  EXPECT_EQ(kills[0].process, kWorker);
  auto moved = moves(driver_);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].state, wire::ActorState::kDead);
  EXPECT_FALSE(answer(driver_, monitor));
  crash(kWorker);
  auto death = answer(driver_, monitor);
  ASSERT_TRUE(death);
  EXPECT_EQ(std::get<ActorDeath>(*death).cause, DeathCause::kKilled);
  EXPECT_TRUE(moves(driver_).empty()) << "AC-3: told once";
  pass(1min);
  EXPECT_TRUE(starts(1).empty());
}

TEST_F(ActorsTest, KillWithRestartBringsItBackAndUsesTheBudget) {
  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = 1;
  ActorId id = live(counter, kWorker);
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{id, true});
  EXPECT_EQ(moves(driver_).at(0).state, wire::ActorState::kRestarting);
  pass(1s);
  EXPECT_TRUE(starts(1).empty()) << "AC-2: not before the old process is gone";
  crash(kWorker);
  pass(1s);
  auto start = starts(1);
  ASSERT_EQ(start.size(), 1u);
  started(start[0], kWorker2);
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{id, true});
  crash(kWorker2);
  EXPECT_EQ(ask<ActorDeath>(driver_, Method::kMonitorActor, wire::ResolveActor{id}).cause, DeathCause::kKilled);
}

TEST_F(ActorsTest, KillOfAPendingOrRestartingActorEndsItAtOnce) {
  wire::ActorSpec large = spec(driver_, job_);
  large.resources.cpus = 99;
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, large);
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{large.id, false});
  EXPECT_EQ(ask<ActorDeath>(driver_, Method::kMonitorActor, wire::ResolveActor{large.id}).cause, DeathCause::kKilled);

  wire::ActorSpec counter = spec(driver_, job_);
  counter.max_restarts = 5;
  live(counter, kWorker);
  crash(kWorker);
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{counter.id, false});
  pass(1min);
  EXPECT_TRUE(starts(1).empty());
  EXPECT_EQ(where(driver_, counter.id).state, wire::ActorState::kDead);
}

TEST_F(ActorsTest, KillDuringTheStartDropsTheStartAndKillsALateOne) {
  wire::ActorSpec counter = spec(driver_, job_);
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, counter);
  auto start = starts(1);
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{counter.id, false});
  auto kills = notices<wire::KillProcess>(daemon_of(1), Method::kKillActorProcess);
  ASSERT_EQ(kills.size(), 1u);
  EXPECT_EQ(kills[0].process, daemon_of(1));
  EXPECT_EQ(kills[0].actor, counter.id);
  started(start[0], kWorker);  // it was on its way
  kills = notices<wire::KillProcess>(daemon_of(1), Method::kKillActorProcess);
  ASSERT_EQ(kills.size(), 1u);
  EXPECT_EQ(kills[0].process, kWorker);
  EXPECT_EQ(where(driver_, counter.id).state, wire::ActorState::kDead);
}

TEST_F(ActorsTest, AKillThatTheNodeNeverConfirmsEndsByItsDeadline) {
  ActorId id = live(spec(driver_, job_), kWorker);
  std::uint64_t monitor = request(driver_, Method::kMonitorActor, wire::ResolveActor{id});
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{id, false});
  pass(kKillGrace);
  EXPECT_TRUE(answer(driver_, monitor));
}

TEST_F(ActorsTest, ANamedLightActorIsEndedInItsHostAndNotByKillingTheHost) {
  wire::ActorSpec light = spec(driver_, job_, "l");
  light.isolation = Isolation::kLight;
  live(light, kWorker);
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{light.id, false});
  EXPECT_TRUE(notices<wire::KillProcess>(daemon_of(1), Method::kKillActorProcess).empty());
  auto ends = notices<wire::EndActor>(kWorker, Method::kEndActor);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].actor, light.id);
  EXPECT_EQ(where(driver_, light.id).state, wire::ActorState::kDead);
}

TEST_F(ActorsTest, QuestionsAboutAnActorThatIsNotKnownYetWaitForItsCreation) {
  const ProcessId borrower{1, 20};
  wire::ActorSpec counter = spec(driver_, job_);
  std::uint64_t resolve = request(borrower, Method::kResolveActor, wire::ResolveActor{counter.id});
  std::uint64_t monitor = request(borrower, Method::kMonitorActor, wire::ResolveActor{counter.id});
  EXPECT_FALSE(answer(borrower, resolve));
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, counter);
  EXPECT_TRUE(answer(borrower, resolve)) << "AC-5";
  EXPECT_FALSE(answer(borrower, monitor));
}

TEST_F(ActorsTest, AC5_QuestionsAboutAnActorThatItsMakerHasBegunWaitAsLongAsThatLives) {
  const ProcessId borrower{1, 20}, maker{1, 21};
  const auto begin = [&](ProcessId by, ActorId actor) {
    ask<wire::Empty>(by, Method::kHandleCounts, wire::HandleCounts{by, {}, {}, {actor}});
  };
  wire::ActorSpec slow = spec(driver_, job_);
  const ActorId killed{driver_, 990}, dropped{driver_, 991}, orphan{maker, 1}, foreign{driver_, 992};
  for (ActorId actor : {slow.id, killed, dropped}) begin(driver_, actor);
  begin(maker, orphan);
  begin(maker, foreign);  // not its own: nothing is promised by that
  std::map<ActorId, std::uint64_t> asked;
  for (ActorId actor : {slow.id, killed, dropped, orphan, foreign})
    asked[actor] = request(borrower, Method::kResolveActor, wire::ResolveActor{actor});
  const std::uint64_t monitor = request(borrower, Method::kMonitorActor, wire::ResolveActor{slow.id});
  const auto answered = [&](ActorId actor) { return answer(borrower, asked[actor]).has_value(); };
  pass(4 * kUnknownGrace);
  EXPECT_TRUE(answered(foreign));
  for (ActorId actor : {slow.id, killed, dropped, orphan}) EXPECT_FALSE(answered(actor));
  ask<wire::Empty>(borrower, Method::kKillActor, wire::KillActor{killed, false});
  EXPECT_TRUE(answered(killed)) << "at once";
  drop_handle(driver_, dropped);
  crash(maker);
  pass(kUnknownGrace);
  EXPECT_TRUE(answered(dropped));
  EXPECT_TRUE(answered(orphan));
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, slow);
  EXPECT_TRUE(answered(slow.id));
  EXPECT_FALSE(answer(borrower, monitor)) << "it lives";
  wire::ActorSpec late = spec(driver_, job_);
  late.id = killed;
  EXPECT_EQ(ask_error(driver_, Method::kCreateActor, late).code, ErrorCode::kActorDied) << "AC-7";
}

TEST_F(ActorsTest, QuestionsAboutAnActorThatNobodyKnowsAreAnsweredByTheDeadline) {
  std::uint64_t resolve = request(driver_, Method::kResolveActor, wire::ResolveActor{{driver_, 999}});
  std::uint64_t kill = request(driver_, Method::kKillActor, wire::KillActor{{driver_, 998}, false});
  std::uint64_t monitor = request(driver_, Method::kMonitorActor, wire::ResolveActor{{driver_, 997}});
  pass(kUnknownGrace);
  auto reply = answer(driver_, resolve);
  ASSERT_TRUE(reply);
  EXPECT_EQ(std::get<wire::ActorLocation>(*reply).state, wire::ActorState::kDead);
  EXPECT_TRUE(answer(driver_, kill));
  auto unknown = answer(driver_, monitor);
  ASSERT_TRUE(unknown);
  EXPECT_EQ(std::get<ErrorRecord>(*unknown).code, ErrorCode::kNotFound);
}

TEST_F(ActorsTest, RemembersTheLastTenThousandDead) {
  ActorId first, last;
  for (std::size_t i = 0; i <= kDeadActorsKept; ++i) {
    wire::LightActors batch;
    batch.process = kWorker;
    batch.job = job_;
    ActorId id{driver_, 100'000 + i};
    batch.started = batch.ended = {id};
    notice(kWorker, Method::kLightActors, batch);
    if (i == 0) first = id;
    last = id;
  }
  EXPECT_FALSE(state_.actors().state_of(first));
  EXPECT_EQ(state_.actors().state_of(last), wire::ActorState::kDead);
}

}  // namespace
}  // namespace troupe::head
