// Where actors are placed, what waits, what is refused, what moves (MB-4, PQ-1, AC-9).
#include "head_fixture.h"

#include <deque>

namespace troupe::head {
namespace {

class PlacementTest : public OneNode {
 protected:
  ActorId create(double cpus, Scheduling scheduling = Hybrid{}) {
    wire::ActorSpec actor = spec(driver_, job_);
    actor.resources.cpus = cpus;
    actor.scheduling = std::move(scheduling);
    ask<wire::CreateActorReply>(driver_, Method::kCreateActor, actor);
    return actor.id;
  }
  std::size_t warnings() { return notices<wire::WarningText>(driver_, Method::kWarning).size(); }
};

TEST_F(PlacementTest, ABurstIsNotAllSentToOneNode) {
  join(4);
  for (int i = 0; i < 8; ++i) create(1);
  EXPECT_EQ(starts(1).size(), 4u) << "MB-4";
  EXPECT_EQ(starts(2).size(), 4u);
  create(1);
  EXPECT_TRUE(starts(1).empty());
  EXPECT_TRUE(starts(2).empty());
}

TEST_F(PlacementTest, TheDebitLastsUntilTheNodesReportIncludesTheStart) {
  create(3);
  load(1, 4, 0);  // measured before the start arrived there
  create(3);
  EXPECT_EQ(starts(1).size(), 1u);
  load(1, 1, 1);
  EXPECT_EQ(state_.membership().view().find(1)->available.cpu, sched::kUnit);
  load(1, 4, 1);
  EXPECT_EQ(starts(1).size(), 1u) << "the second, now that there is room";
}

TEST_F(PlacementTest, WaitingActorsStartWhenANodeJoinsOldestFirst) {
  ActorId first = create(6), second = create(6);
  EXPECT_TRUE(starts(1).empty());
  std::uint32_t node = join(8);
  auto start = starts(node);
  ASSERT_EQ(start.size(), 1u);
  EXPECT_EQ(start[0].spec.id, first);
  load(node, 8, 1);
  start = starts(node);
  ASSERT_EQ(start.size(), 1u);
  EXPECT_EQ(start[0].spec.id, second);
}

TEST_F(PlacementTest, ARequestLargerThanAnyNodeWaitsWithAWarningInTime) {
  create(99);
  EXPECT_EQ(warnings(), 0u);
  pass(5s);
  EXPECT_EQ(warnings(), 1u);
  create(99);
  pass(10s);
  EXPECT_EQ(warnings(), 0u) << "the same demand is mentioned once";
}

TEST_F(PlacementTest, ABusyClusterIsMentionedAfterFiveSeconds) {
  create(4);
  create(4);
  pass(4s);
  EXPECT_EQ(warnings(), 0u);
  pass(1s);
  EXPECT_EQ(warnings(), 1u);
}

/// Tasks have the CPUs: the daemon lets it in ahead of further ones. Left at the head it would wait for a moment
/// without a task. (AP-4)
TEST_F(PlacementTest, AP4_AnActorClaimsAPlaceThatOnlyTasksHave) {
  load(1, 0, 0);
  const ActorId id = create(3);
  ASSERT_EQ(starts(1).size(), 1u);
  load(1, 3, 0);  // measured before the claim came there
  EXPECT_EQ(state_.membership().view().find(1)->available.cpu, 0) << "MB-4: it may have them by now";
  create(3);
  EXPECT_TRUE(starts(1).empty()) << "the first one will have it";
  load(1, 0, 1);
  const auto refuse = [&] {
    notice(daemon_of(1), Method::kStartActorFailed,
           wire::StartActorFailed{id, 0, error_record(ErrorCode::kInfeasible, "no room"), true});
  };
  refuse();
  pass(100ms);
  EXPECT_TRUE(starts(1).empty()) << "not all the time";
  load(1, 4, 1);
  EXPECT_EQ(starts(1).size(), 1u) << "room is seen at once";
  EXPECT_EQ(warnings(), 0u);
}

TEST_F(PlacementTest, AP4_ClaimsAreRepeatedAndTheWaitIsMentioned) {
  load(1, 0, 0);
  const ActorId id = create(3);
  std::size_t claims = 0;
  for (int i = 0; i < 60; ++i) {
    for (const auto& start : starts(1)) {
      ++claims;
      notice(daemon_of(1), Method::kStartActorFailed,
             wire::StartActorFailed{start.spec.id, 0, error_record(ErrorCode::kInfeasible, "no room"), true});
      load(1, 0, claims);
    }
    pass(100ms);
  }
  EXPECT_EQ(where(driver_, id).state, wire::ActorState::kPending);
  EXPECT_GT(claims, 3u);
  EXPECT_LT(claims, 8u) << "250 ms, 500 ms, 1 s, 2 s, 4 s";
  EXPECT_EQ(warnings(), 1u);
}

/// A claim that waits on a node is a wait as any: the user hears of it.
TEST_F(PlacementTest, AP4_AWaitOnOneNodeAfterAnotherIsMentionedInTime) {
  for (int i = 0; i < 3; ++i) join(4);
  std::map<std::uint32_t, std::uint64_t> seen;
  for (std::uint32_t node = 1; node <= 4; ++node) load(node, 0, 0);
  create(3);
  std::deque<std::pair<Time, std::pair<std::uint32_t, ActorId>>> claims;
  std::size_t said_by_six_seconds = 0;
  for (int i = 0; i < 200; ++i) {
    for (std::uint32_t node = 1; node <= 4; ++node)
      for (const auto& start : starts(node)) claims.push_back({now_ + 2s, {node, start.spec.id}});
    for (; !claims.empty() && claims.front().first <= now_; claims.pop_front()) {
      const auto [node, actor] = claims.front().second;
      notice(daemon_of(node), Method::kStartActorFailed,
             wire::StartActorFailed{actor, 0, error_record(ErrorCode::kInfeasible, "no room"), true});
      load(node, 0, ++seen[node]);
    }
    pass(100ms);
    if (i < 60) said_by_six_seconds += warnings();
  }
  EXPECT_EQ(said_by_six_seconds, 1u);
}

TEST_F(PlacementTest, AC8_TheDeathOfANodeOnWhichAnActorWaitsCostsItNothing) {
  const std::uint32_t second = join(8);
  load(1, 0, 0);
  load(second, 0, 0);
  const ActorId id = create(6);
  ASSERT_EQ(starts(second).size(), 1u);
  lose_link(second);
  pass(1s);
  EXPECT_EQ(where(driver_, id).state, wire::ActorState::kPending);
  const std::uint32_t third = join(8);
  const auto start = starts(third);
  ASSERT_EQ(start.size(), 1u);
  EXPECT_EQ(start[0].restarts, 0);
}

TEST_F(PlacementTest, WhatCanNeverHoldIsInfeasible) {
  wire::ActorSpec actor = spec(driver_, job_);
  actor.scheduling = NodeAffinity{"0123456789abcdef", false};
  EXPECT_EQ(ask_error(driver_, Method::kCreateActor, actor).code, ErrorCode::kInfeasible);
  actor.scheduling = Bundle{"g", 0};
  EXPECT_EQ(ask_error(driver_, Method::kCreateActor, actor).code, ErrorCode::kInfeasible);
  actor.scheduling = Hybrid{};
  actor.labels.match = {{"zone", "mars"}};
  EXPECT_EQ(ask_error(driver_, Method::kCreateActor, actor).code, ErrorCode::kInfeasible);
  actor.labels.match = {{"zone", "in(a"}};
  EXPECT_EQ(ask_error(driver_, Method::kCreateActor, actor).code, ErrorCode::kInvalidArgument);
  actor.labels.match = {};
  actor.resources.gpus = 1.5;
  EXPECT_EQ(ask_error(driver_, Method::kCreateActor, actor).code, ErrorCode::kInvalidArgument);
}

TEST_F(PlacementTest, AffinityAndLabelsChooseTheNode) {
  std::uint32_t second = join(4, {{"zone", "b"}});
  create(0, NodeAffinity{ids_[second], false});
  EXPECT_EQ(starts(second).size(), 1u);
  wire::ActorSpec labelled = spec(driver_, job_);
  labelled.labels.match = {{"zone", "b"}};
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, labelled);
  EXPECT_EQ(starts(second).size(), 1u);
  create(0);
  EXPECT_EQ(starts(1).size(), 1u) << "otherwise near its creator";
}

TEST_F(PlacementTest, SpreadGoesRound) {
  join(4);
  for (int i = 0; i < 4; ++i) create(0, Spread{});
  EXPECT_EQ(starts(1).size(), 2u);
  EXPECT_EQ(starts(2).size(), 2u);
}

TEST_F(PlacementTest, ARestartableActorMovesFromADeadNodeAndOthersDieWithIt) {
  std::uint32_t second = join(4, {{"b", "1"}});
  wire::ActorSpec mover = spec(driver_, job_), stayer = spec(driver_, job_), bound = spec(driver_, job_);
  mover.max_restarts = 1;
  bound.max_restarts = 1;
  mover.scheduling = NodeAffinity{ids_[second], true};
  stayer.scheduling = bound.scheduling = NodeAffinity{ids_[second], false};
  live(mover, {second, 1});
  live(stayer, {second, 2});
  live(bound, {second, 3});
  lose_link(second);
  pass(300ms);
  EXPECT_EQ(ask<ActorDeath>(driver_, Method::kMonitorActor, wire::ResolveActor{stayer.id}).cause,
            DeathCause::kNodeDied);
  EXPECT_EQ(where(driver_, mover.id).state, wire::ActorState::kRestarting);
  pass(1s);
  auto start = starts(1);
  ASSERT_EQ(start.size(), 1u);
  EXPECT_EQ(start[0].spec.id, mover.id);
  EXPECT_EQ(start[0].restarts, 1);
  auto death = ask<ActorDeath>(driver_, Method::kMonitorActor, wire::ResolveActor{bound.id});
  EXPECT_EQ(death.cause, DeathCause::kNodeDied);
  EXPECT_EQ(where(driver_, bound.id).error->code, ErrorCode::kInfeasible);
}

TEST_F(PlacementTest, AStartThatANodeRefusesGoesOnElsewhereWithoutCountingAsARestart) {
  std::uint32_t second = join(4);
  ActorId id = create(3);
  auto start = starts(1);
  ASSERT_EQ(start.size(), 1u);
  notice(daemon_of(1), Method::kStartActorFailed,
         wire::StartActorFailed{id, 0, error_record(ErrorCode::kInfeasible, "no room"), true});
  load(1, 1, 1);
  pass(1s);
  auto again = starts(second);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].restarts, 0);
}

// A start that fails for a reason of its node: the program is missing there, say, or its image cannot be had.
class FailingStartTest : public PlacementTest {
 protected:
  /// The node has room, and the start fails.
  void fail(std::uint32_t node, ActorId id, const std::string& why = "no such program") {
    notice(daemon_of(node), Method::kStartActorFailed,
           wire::StartActorFailed{id, 0, error_record(ErrorCode::kRuntimeEnv, why), true});
    load(node, 4, ++seen_[node]);
  }
  /// The one node that was asked to start it since the last look; 0: none, or several.
  std::uint32_t asked() {
    std::uint32_t node = 0;
    for (const auto& [number, link] : links_)
      for (std::size_t count = starts(number).size(); count > 0; --count) node = node == 0 ? number : 0;
    return node;
  }
  std::vector<std::string> said() {
    std::vector<std::string> texts;
    for (const auto& warning : notices<wire::WarningText>(driver_, Method::kWarning)) texts.push_back(warning.text);
    return texts;
  }
  std::map<std::uint32_t, std::uint64_t> seen_;
};

TEST_F(FailingStartTest, AC9_GoesToAllOtherNodesFirstAndThenRound) {
  join(4);
  join(4);
  const ActorId id = create(1);
  std::map<std::uint32_t, int> tries;
  for (int i = 0; i < 9; ++i) {
    const std::uint32_t node = asked();
    ASSERT_NE(node, 0u) << i;
    ++tries[node];
    EXPECT_EQ(tries[node], i / 3 + 1) << "no node twice in a round";
    fail(node, id);
    pass(2s);
  }
}

TEST_F(FailingStartTest, AC9_DoesNotGoBackWhileAnotherNodeIsBusyForEver) {
  const std::uint32_t second = join(4);
  load(second, 0, 0);
  const ActorId id = create(1);
  ASSERT_EQ(asked(), 1u);
  fail(1, id);
  pass(2s);
  ASSERT_EQ(asked(), 1u) << "the other one has no room: what failed may be over";
  load(second, 4, 0);
  fail(1, id);
  pass(2s);
  EXPECT_EQ(asked(), second);
}

TEST_F(FailingStartTest, AC9_IsTriedAgainOnTheOnlyNodeThatMayRunIt) {
  join(4);
  const ActorId id = create(1, NodeAffinity{ids_[1], false});
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(asked(), 1u);
    fail(1, id);
    pass(2s);
  }
}

/// There is room elsewhere, but the actor may not run there: its own node is claimed all the same. (AP-4)
TEST_F(FailingStartTest, AC9_ClaimsTheOnlyNodeThatMayRunIt) {
  join(4);
  const ActorId id = create(3, NodeAffinity{ids_[1], false});
  ASSERT_EQ(asked(), 1u);
  notice(daemon_of(1), Method::kStartActorFailed,
         wire::StartActorFailed{id, 0, error_record(ErrorCode::kRuntimeEnv, "no such program"), true});
  load(1, 0, 1);  // tasks have it by now
  pass(2s);
  EXPECT_EQ(asked(), 1u);
}

TEST_F(FailingStartTest, AC9_WasNoFaultOfTheNodeWhereItHadNoRoom) {
  join(4);
  const ActorId id = create(1);
  ASSERT_EQ(asked(), 1u);
  notice(daemon_of(1), Method::kStartActorFailed,
         wire::StartActorFailed{id, 0, error_record(ErrorCode::kInfeasible, "no room"), true});
  load(1, 4, 1);
  pass(2s);
  EXPECT_EQ(asked(), 1u);
}

TEST_F(FailingStartTest, AC9_OfAClaimGoesElsewhereToo) {
  const std::uint32_t second = join(4);
  load(1, 0, 0);
  load(second, 0, 0);
  const ActorId id = create(3);
  const std::uint32_t first = asked();
  ASSERT_NE(first, 0u);
  notice(daemon_of(first), Method::kStartActorFailed,
         wire::StartActorFailed{id, 0, error_record(ErrorCode::kRuntimeEnv, "no such program"), true});
  pass(2s);
  EXPECT_EQ(asked(), 3 - first) << "the other one";
}

TEST_F(FailingStartTest, AP3_IsMentionedWithItsReasonWhenItHasWaitedForLongButOnceForAJobAndNode) {
  const ActorId id = create(1), another = create(1);
  fail(1, id);
  fail(1, another);
  EXPECT_TRUE(said().empty()) << "it may start at once elsewhere";
  for (int i = 0; i < 10; ++i) {
    pass(1s);
    for (const auto& start : starts(1)) fail(1, start.spec.id);
  }
  const std::vector<std::string> texts = said();
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_NE(texts[0].find("no such program"), std::string::npos) << texts[0];
  EXPECT_NE(texts[0].find(ids_[1]), std::string::npos) << texts[0];
}

TEST_F(FailingStartTest, AP3_WithoutRoomAgainAndAgainIsMentionedAsAnyWait) {
  const ActorId id = create(1);
  for (int i = 0; i < 10; ++i) {
    for (std::size_t count = starts(1).size(); count > 0; --count)
      notice(daemon_of(1), Method::kStartActorFailed,
             wire::StartActorFailed{id, 0, error_record(ErrorCode::kInfeasible, "no room"), true});
    load(1, 4, ++seen_[1]);
    pass(1s);
  }
  EXPECT_EQ(said().size(), 1u);
}

// Where a daemon asks for the image of a job that it does not know.
class ImageTest : public OneNode {
 protected:
  void lose(std::uint32_t node) {
    lose_link(node);
    pass(400ms);  // link_grace
  }
  /// Outlives its job, and needs a CPU.
  wire::ActorSpec service() {
    wire::ActorSpec actor = spec(driver_, job_, "service");
    actor.lifetime = Lifetime::kDetached;
    actor.max_restarts = 10;
    actor.resources.cpus = 1;
    return actor;
  }
};

TEST_F(ImageTest, JN1_ComesFromTheDriversNode) {
  const std::uint32_t second = join(4);
  wire::ActorSpec actor = spec({second, 7}, job_);
  ask<wire::CreateActorReply>(actor.creator, Method::kCreateActor, actor);
  const auto start = starts(second);
  ASSERT_EQ(start.size(), 1u);
  EXPECT_EQ(start[0].image_at, 1u);
}

TEST_F(ImageTest, JN1_ComesFromANodeThatHasRunTheJobWhenDriverAndCreatorAreLost) {
  const std::uint32_t second = join(1), third = join(4);
  load(1, 0, 0);
  load(third, 0, 0);
  const wire::ActorSpec actor = service();
  const ProcessId process{second, 7};
  live(actor, process);
  lose(1);
  EXPECT_EQ(where(process, actor.id).state, wire::ActorState::kAlive);
  load(third, 4, 0);
  crash(process);
  pass(2s);
  auto start = starts(third);
  ASSERT_EQ(start.size(), 1u);
  EXPECT_EQ(start[0].image_at, second);
  notice(daemon_of(third), Method::kStartActorFailed,
         wire::StartActorFailed{actor.id, 1, error_record(ErrorCode::kRuntimeEnv, "no image"), true});
  load(third, 4, 1);
  pass(2s);
  start = starts(third);
  ASSERT_EQ(start.size(), 1u) << "nowhere else is room";
  EXPECT_EQ(start[0].image_at, second) << "where it failed nobody knows the job";
  EXPECT_EQ(state_.actors().job_nodes().jobs(), 1u);
  ask<wire::Empty>(daemon_of(third), Method::kKillActor, wire::KillActor{actor.id, false});
  EXPECT_EQ(state_.actors().job_nodes().jobs(), 0u) << "JN-2: the last of an ended job is dead";
}

/// The driver's daemon has ended the job by itself, say, when it heard nothing of the head.
TEST_F(ImageTest, AC9_ComesFromAnotherNodeWhenItCouldNotBeHad) {
  const std::uint32_t second = join(1), third = join(1);
  load(1, 0, 0);
  load(third, 0, 0);
  const wire::ActorSpec actor = service();
  const ProcessId process{second, 7};
  live(actor, process);
  load(second, 0, 0);
  crash(process);
  std::set<std::uint32_t> named;
  for (int i = 0; i < 2; ++i) {
    load(third, 1, i);
    pass(2s);
    const auto start = starts(third);
    ASSERT_EQ(start.size(), 1u);
    named.insert(start[0].image_at);
    notice(daemon_of(third), Method::kStartActorFailed,
           wire::StartActorFailed{actor.id, 1, error_record(ErrorCode::kRuntimeEnv, "no image"), true});
  }
  EXPECT_EQ(named, (std::set<std::uint32_t>{1, second}));
}

TEST_F(ImageTest, JN1_ComesFromNoDeadNode) {
  const std::uint32_t second = join(1), third = join(4);
  load(1, 0, 0);
  load(third, 0, 0);
  const wire::ActorSpec actor = service();
  live(actor, {second, 7});
  load(third, 4, 0);
  lose(1);
  lose(second);
  pass(2s);
  const auto start = starts(third);
  ASSERT_EQ(start.size(), 1u);
  EXPECT_EQ(start[0].image_at, 0u) << "there is none";
  EXPECT_EQ(state_.actors().job_nodes().jobs(), 0u) << "JN-2";
}

TEST_F(ImageTest, JN2_OfAJobThatLeavesNothingBehindIsForgotten) {
  live(spec(driver_, job_), {1, 7});
  EXPECT_EQ(state_.actors().job_nodes().jobs(), 1u);
  wire::JobFinished finished;
  finished.job = job_;
  notice(driver_, Method::kJobFinished, finished);
  EXPECT_EQ(state_.actors().job_nodes().jobs(), 0u);
}

TEST_F(PlacementTest, AStartThatCanNotWorkAnywhereIsTheActorsDeath) {
  ActorId id = create(1);
  starts(1);
  notice(daemon_of(1), Method::kStartActorFailed,
         wire::StartActorFailed{id, 0, error_record(ErrorCode::kRuntimeEnv, "no such folder"), false});
  auto location = where(driver_, id);
  EXPECT_EQ(location.state, wire::ActorState::kDead);
  EXPECT_EQ(location.error->code, ErrorCode::kRuntimeEnv);
}

TEST_F(PlacementTest, ActorsThatWereStartingOnADeadNodeStartElsewhereOrDie) {
  std::uint32_t second = join(4);
  wire::ActorSpec mover = spec(driver_, job_);
  mover.max_restarts = 1;
  mover.scheduling = NodeAffinity{ids_[second], true};
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, mover);
  ASSERT_EQ(starts(second).size(), 1u);
  lose_link(second);
  pass(1s);
  EXPECT_EQ(starts(1).size(), 1u);
}

}  // namespace
}  // namespace troupe::head
