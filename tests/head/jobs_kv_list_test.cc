// Jobs and what they leave behind, the key-value table, lists (JB-1, KV-1, LS-1, LS-2).
#include "head_fixture.h"

#include <limits>

namespace troupe::head {
namespace {

using JobsTest = OneNode;
const ProcessId kWorker{1, 10};

TEST_F(JobsTest, TheEndOfAJobEndsItsActorsAndTellsAllDaemons) {
  std::uint32_t second = join(4);
  ActorId id = live(spec(driver_, job_, "hits"), kWorker);
  wire::ActorSpec large = spec(driver_, job_);
  large.resources.cpus = 99;
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, large);
  notice(daemon_of(1), Method::kJobFinished, wire::JobFinished{job_, driver_, 0, ""});
  for (std::uint32_t node : {1u, second}) {
    auto ended = notices<wire::JobEnded>(daemon_of(node), Method::kJobEnded);
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].job, job_);
    EXPECT_TRUE(ended[0].keep_processes.empty());
  }
  EXPECT_EQ(row(id)["state"], "DEAD");
  EXPECT_EQ(row(large.id)["state"], "DEAD");
  EXPECT_EQ(ask<ActorDeath>(kWorker, Method::kMonitorActor, wire::ResolveActor{id}).cause, DeathCause::kJobEnded);
  load(1, 100);
  EXPECT_TRUE(starts(1).empty());
}

TEST_F(JobsTest, ADetachedActorOutlivesJobAndDriverAndItsCrash) {
  wire::ActorSpec detached = spec(driver_, job_, "d");
  detached.lifetime = Lifetime::kDetached;
  detached.max_restarts = 1;
  live(detached, kWorker);
  crash(driver_, "killed by SIGKILL (9)");
  auto ended = notices<wire::JobEnded>(daemon_of(1), Method::kJobEnded);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].keep_processes, std::vector<ProcessId>{kWorker});
  EXPECT_EQ(ended[0].keep_actors, std::vector<ActorId>{detached.id});
  const ProcessId second{1, 2};
  job(second, "ns");
  EXPECT_EQ(ask<wire::NamedActorReply>(second, Method::kGetNamedActor, wire::NamedActor{"d", ""}).handle.actor,
            detached.id);
  crash(kWorker);
  pass(1s);
  EXPECT_EQ(starts(1).size(), 1u);
}

TEST_F(JobsTest, TheEndOfTheLastActorThatAJobLeftBehindIsToldToAllDaemons) {
  std::uint32_t second = join(1);
  wire::ActorSpec detached = spec(driver_, job_, "d");
  detached.lifetime = Lifetime::kDetached;
  live(detached, kWorker);
  ActorId child = live(spec(kWorker, job_), {1, 11});
  notice(daemon_of(1), Method::kJobFinished, wire::JobFinished{job_, driver_, 0, ""});
  for (std::uint32_t node : {1u, second})
    EXPECT_EQ(notices<wire::JobEnded>(daemon_of(node), Method::kJobEnded).size(), 1u);
  exited(detached.id, kWorker, DeathCause::kKilled);
  crash(kWorker);
  EXPECT_TRUE(notices<wire::JobEnded>(daemon_of(1), Method::kJobEnded).empty()) << "one that it made still lives";
  exited(child, {1, 11}, DeathCause::kFinished);
  for (std::uint32_t node : {1u, second}) {
    auto over = notices<wire::JobEnded>(daemon_of(node), Method::kJobEnded);
    ASSERT_EQ(over.size(), 1u) << "AC-6";
    EXPECT_TRUE(over[0].keep_actors.empty() && over[0].keep_processes.empty());
  }
}

TEST_F(JobsTest, WhatADetachedActorMadeOutlivesTheJobWithIt) {
  wire::ActorSpec detached = spec(driver_, job_, "d");
  detached.lifetime = Lifetime::kDetached;
  live(detached, kWorker);
  ActorId child = live(spec(kWorker, job_), {1, 11}), grandchild = live(spec({1, 11}, job_), {1, 12}),
          other = live(spec(driver_, job_), {1, 13});
  notice(daemon_of(1), Method::kJobFinished, wire::JobFinished{job_, driver_, 0, ""});
  EXPECT_EQ(state_.actors().state_of(child), wire::ActorState::kAlive);
  EXPECT_EQ(state_.actors().state_of(grandchild), wire::ActorState::kAlive);
  EXPECT_EQ(state_.actors().state_of(other), wire::ActorState::kDead);
  ask<wire::CreateActorReply>(kWorker, Method::kCreateActor, spec(kWorker, job_));  // and it may go on making them
}

/// What waited for the name of an actor that ended with the job was made, and the daemons were not told to keep it.
TEST_F(JobsTest, AC10_WhatWaitedForANameOfTheJobEndsOrStaysLikeItsMaker) {
  const ProcessId leaving{1, 11};
  for (const bool stays : {true, false}) {
    const std::string name = stays ? "a" : "b";
    drop_handle(driver_, live(spec(driver_, job_, name), {1, stays ? 20u : 21u}));  // it is told to end, and takes long
  }
  wire::ActorSpec detached = spec(driver_, job_, "d");
  detached.lifetime = Lifetime::kDetached;
  live(detached, kWorker);
  live(spec(driver_, job_), leaving);
  const wire::ActorSpec kept = spec(kWorker, job_, "a"), ended = spec(leaving, job_, "b");
  request(kWorker, Method::kCreateActor, kept);
  request(leaving, Method::kCreateActor, ended);
  notice(daemon_of(1), Method::kJobFinished, wire::JobFinished{job_, driver_, 0, ""});
  const auto told = notices<wire::JobEnded>(daemon_of(1), Method::kJobEnded);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].keep_actors, (std::vector<ActorId>{detached.id, kept.id}));
  EXPECT_NE(state_.actors().state_of(kept.id), wire::ActorState::kDead);
  EXPECT_NE(state_.actors().state_of(ended.id), wire::ActorState::kPending) << "nobody starts it";
}

TEST_F(JobsTest, AnEndedJobCreatesNoActors) {
  notice(daemon_of(1), Method::kJobFinished, wire::JobFinished{job_, driver_, 0, ""});
  EXPECT_EQ(ask_error({1, 3}, Method::kCreateActor, spec({1, 3}, job_)).code, ErrorCode::kCancelled);
}

TEST_F(JobsTest, TheDriversDeathAndItsNodesDeathEndTheJob) {
  std::uint32_t second = join(4);
  JobId other = job({second, 1}, "b");
  lose_link(second);
  pass(1s);
  EXPECT_FALSE(state_.jobs().running(other));
  EXPECT_TRUE(state_.jobs().running(job_));
  crash(driver_);
  EXPECT_FALSE(state_.jobs().running(job_));
  EXPECT_EQ(notices<wire::JobEnded>(daemon_of(1), Method::kJobEnded).size(), 2u);
}

TEST_F(JobsTest, JobsAreListed) {
  notice(daemon_of(1), Method::kJobFinished, wire::JobFinished{job_, driver_, 3, ""});
  job({1, 9});
  auto rows =
      ask<wire::StateReply>(daemon_of(1), Method::kListState, wire::StateQuery{wire::StateKind::kJobs, {}, -1, 0}).rows;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("job_id"), "1");
  EXPECT_EQ(rows[0].at("name_space"), "ns");
  EXPECT_EQ(rows[0].at("state"), "FAILED");
  EXPECT_EQ(rows[0].at("driver_pid"), "77");
  EXPECT_EQ(rows[1].at("state"), "RUNNING");
  EXPECT_FALSE(rows[1].at("name_space").empty()) << "JB-2";
}

TEST_F(JobsTest, KeyValue) {
  ask<wire::Empty>(driver_, Method::kKvPut, wire::KvEntry{"b", "1"});
  ask<wire::Empty>(driver_, Method::kKvPut, wire::KvEntry{"a/2", "x"});
  ask<wire::Empty>(driver_, Method::kKvPut, wire::KvEntry{"a/1", ""});
  ask<wire::Empty>(driver_, Method::kKvPut, wire::KvEntry{"b", "2"});
  EXPECT_EQ(ask<wire::KvValue>(driver_, Method::kKvGet, wire::KvKey{"b"}).value, "2");
  EXPECT_EQ(ask<wire::KvValue>(driver_, Method::kKvGet, wire::KvKey{"a/1"}).value, "");
  EXPECT_FALSE(ask<wire::KvValue>(driver_, Method::kKvGet, wire::KvKey{"c"}).value);
  EXPECT_EQ(ask<wire::KvKeyList>(driver_, Method::kKvKeys, wire::KvKey{"a/"}).keys,
            (std::vector<std::string>{"a/1", "a/2"}));
  EXPECT_TRUE(ask<wire::KvDeleted>(driver_, Method::kKvDel, wire::KvKey{"b"}).deleted);
  EXPECT_FALSE(ask<wire::KvDeleted>(driver_, Method::kKvDel, wire::KvKey{"b"}).deleted);
}

TEST_F(JobsTest, KV1_OfTwoSwapsWithOneExpectationOneHappens) {
  const auto swap = [&](std::optional<std::string> expected, std::string value) {
    return ask<wire::KvValue>(driver_, Method::kKvSwap, wire::KvSwap{"k", std::move(expected), std::move(value)}).value;
  };
  EXPECT_EQ(swap("0", "x"), std::nullopt) << "there is nothing";
  EXPECT_EQ(swap(std::nullopt, "1"), "1");
  EXPECT_EQ(swap(std::nullopt, "2"), "1");
  EXPECT_EQ(swap("1", "2"), "2");
  EXPECT_EQ(swap("1", "3"), "2");
  EXPECT_EQ(ask<wire::KvValue>(kWorker, Method::kKvGet, wire::KvKey{"k"}).value, "2");
}

TEST_F(JobsTest, TasksAreAskedForAtTheDaemonsAndMerged) {
  join(1);
  std::uint64_t list =
      request(driver_, Method::kListState, wire::StateQuery{wire::StateKind::kTasks, {{"state", "RUNNING"}}, 2, 0});
  std::vector<Send> queries;
  for (const Send& send : sent_) if (send.method == Method::kQueryState) queries.push_back(send);
  ASSERT_EQ(queries.size(), 2u);
  for (const Send& query : queries) {
    wire::StateReply part;
    part.rows = {{{"task_id", "t" + std::to_string(query.to.node)}, {"state", "RUNNING"}},
                 {{"task_id", "x"}, {"state", "FINISHED"}},
                 {{"task_id", "y"}, {"state", "RUNNING"}}};
    event(Frame{link_of(query.to), wire::FrameKind::kResponse, query.to, query.token, {}, false, part});
  }
  auto reply = answer(driver_, list);
  ASSERT_TRUE(reply);
  EXPECT_EQ(std::get<wire::StateReply>(*reply).rows.size(), 2u) << "filter, then limit";
  EXPECT_TRUE(std::get<wire::StateReply>(*reply).warnings.empty());
}

// REVIEW H.17: at f0736ec a list that was cut off looked complete.
TEST_F(JobsTest, LS4_AListSaysHowManyRowsThereAre) {
  join(1);
  std::uint64_t list = request(driver_, Method::kListState, wire::StateQuery{wire::StateKind::kObjects, {}, 3, 0});
  for (const Send& send : std::vector<Send>(sent_)) {
    if (send.method != Method::kQueryState) continue;
    const wire::StateRow row{{"object_id", "o"}};
    event(Frame{link_of(send.to),
                wire::FrameKind::kResponse,
                send.to,
                send.token,
                {},
                false,
                wire::StateReply{{row, row}, {}, 1'000'000}});
  }
  const wire::StateReply reply = std::get<wire::StateReply>(*answer(driver_, list));
  EXPECT_EQ(reply.rows.size(), 3u);
  EXPECT_EQ(reply.total, 2'000'000u);
  const auto jobs =
      ask<wire::StateReply>(driver_, Method::kListState, wire::StateQuery{wire::StateKind::kJobs, {}, 0, 0});
  EXPECT_EQ(jobs.rows.size(), 0u);
  EXPECT_EQ(jobs.total, 1u);
}

// REVIEW A.20: at f0736ec they were decoded and thrown away.
TEST_F(JobsTest, MET1_CountsAreSumsThatADeathDoesNotLower) {
  const auto report = [&](ProcessId process, double hits, double load) {
    notice(process, Method::kMetrics,
           wire::MetricsReport{process,
                               {{"hits", "counter", {}, {hits}},
                                {"load", "gauge", {}, {load}},
                                {"times", "histogram", {0.5}, {2, 1, hits}},
                                {"odd", "counter", {}, {}}}});
  };
  const auto value = [&](const std::string& name, const std::string& field) {
    const auto rows = ask<wire::StateReply>(driver_, Method::kListState,
                                            wire::StateQuery{wire::StateKind::kMetrics, {{"name", name}}, -1, 0})
                          .rows;
    return rows.size() == 1 ? rows[0].at(field) : std::to_string(rows.size()) + " rows";
  };
  report(driver_, 3, 0.25);
  report(kWorker, 4, 0.75);
  report(kWorker, 5, 0.5);
  EXPECT_EQ(value("hits", "value"), "8") << "a report replaces the former one";
  EXPECT_EQ(value("load", "value"), "0.5");
  EXPECT_EQ(value("times", "value"), "8");
  EXPECT_EQ(value("times", "count"), "6");
  EXPECT_EQ(value("times", "buckets"), "<=0.5: 4, more: 2");
  EXPECT_EQ(value("odd", "value"), "0 rows");
  crash(kWorker);
  EXPECT_EQ(value("hits", "value"), "8");
  EXPECT_EQ(value("hits", "processes"), "1");
  notice(driver_, Method::kMetrics, wire::MetricsReport{kWorker, {{"hits", "counter", {}, {100}}}});
  EXPECT_EQ(value("hits", "value"), "8") << "nobody counts for another";
}

TEST_F(JobsTest, ANodeThatDoesNotAnswerInTimeIsAWarning) {
  join(1);
  std::uint64_t list = request(driver_, Method::kListState, wire::StateQuery{wire::StateKind::kWorkers, {}, -1, 0});
  for (const Send& send : std::vector<Send>(sent_)) {
    if (send.method != Method::kQueryState || send.to.node != 1) continue;
    event(Frame{link_of(send.to),
                wire::FrameKind::kResponse,
                send.to,
                send.token,
                {},
                false,
                wire::StateReply{{{{"worker_id", "w"}}}, {}}});
  }
  pass(999ms);
  EXPECT_FALSE(answer(driver_, list));
  pass(1ms);
  auto reply = answer(driver_, list);
  ASSERT_TRUE(reply) << "LS-1";
  EXPECT_EQ(std::get<wire::StateReply>(*reply).rows.size(), 1u);
  ASSERT_EQ(std::get<wire::StateReply>(*reply).warnings.size(), 1u);
  EXPECT_NE(std::get<wire::StateReply>(*reply).warnings[0].find("node 2"), std::string::npos);
}

/// Light actors are told in batches: what is on its way when the question comes is in the answer. (H.11)
TEST_F(JobsTest, LS3_AListOfActorsWaitsForWhatTheNodesHaveToTell) {
  const ProcessId host{1, 20};
  const std::uint64_t list =
      request(driver_, Method::kListState, wire::StateQuery{wire::StateKind::kActors, {}, -1, 0});
  EXPECT_FALSE(answer(driver_, list)) << "at f0736ec: answered at once, with 0 rows";
  const std::vector<Send> queries = take_queries();
  ASSERT_EQ(queries.size(), 1u);
  wire::LightActors report{host, job_, "Light", "ns", {{driver_, 1}, {driver_, 2}}, {}};
  notice(host, Method::kLightActors, report);
  event(Frame{link_of(daemon_of(1)),
              wire::FrameKind::kResponse,
              daemon_of(1),
              queries[0].token,
              {},
              false,
              wire::StateReply{}});
  const std::optional<Message> reply = answer(driver_, list);
  ASSERT_TRUE(reply);
  EXPECT_EQ(std::get<wire::StateReply>(*reply).rows.size(), 2u);
}

TEST_F(JobsTest, AnUnknownFilterFieldIsTheCallersMistake) {
  ErrorRecord error =
      ask_error(driver_, Method::kListState, wire::StateQuery{wire::StateKind::kActors, {{"colour", "red"}}, -1, 0});
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("actor_id"), std::string::npos) << "LS-2: says which there are";
  EXPECT_EQ(
      ask<wire::StateReply>(driver_, Method::kListState, wire::StateQuery{wire::StateKind::kPlacementGroups, {}, -1, 0})
          .rows.size(),
      0u);
}

TEST_F(JobsTest, ClusterInfoNamesTheCluster) {
  auto info = ask<wire::ClusterInfo>(driver_, Method::kClusterInfo, wire::Empty{});
  EXPECT_EQ(info.cluster_id, "c1");
  EXPECT_EQ(info.nodes.size(), 1u);
}

}  // namespace
}  // namespace troupe::head
