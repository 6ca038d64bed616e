// The table of actors, and what a job leaves behind, by themselves (ATB-1, ATB-2, JS-1, JS-2).
#include "core/head/state/actors/actor_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/head/state/actors/job_survivors.h"

namespace troupe::head {
namespace {

using Phase = ActorRecord::Phase;

const ProcessId kDriver{1, 1}, kHost{1, 10}, kOther{1, 11}, kFar{2, 10};
constexpr JobId kJob = 3;

class ActorTableTest : public ::testing::Test {
 protected:
  static ActorId id(std::uint64_t sequence) { return {kDriver, sequence}; }
  ActorRecord& add(ActorId id, JobId job = kJob) {
    wire::ActorSpec spec;
    spec.id = id;
    spec.job = job;
    spec.creator = id.maker;
    return actors_.add(std::move(spec));
  }
  ActorRecord& live(ActorId id, ProcessId process) {
    ActorRecord& actor = add(id);
    actors_.place(actor, process.node);
    actor.phase = Phase::kAlive;
    actors_.host(actor, process, 4711);
    return actor;
  }

  ActorTable actors_;
};

TEST_F(ActorTableTest, ARecordIsFoundByItsIdAndItsLife) {
  ActorRecord& actor = add(id(1));
  actor.restarts = 2;
  EXPECT_EQ(actors_.find(id(1)), &actor);
  EXPECT_EQ(actors_.find(id(1), 2), &actor);
  EXPECT_EQ(actors_.find(id(1), 1), nullptr) << "another life";
  EXPECT_EQ(actors_.find(id(2)), nullptr);
  EXPECT_EQ(actors_.remove(id(2)), nullptr);
  EXPECT_EQ(actors_.remove(id(1))->restarts, 2);
  EXPECT_EQ(actors_.size(), 0u);
}

TEST_F(ActorTableTest, ATB1_AProcessListsWhatItHosts) {
  ActorRecord& second = live(id(2), kHost);
  live(id(1), kHost);
  live(id(3), kFar);
  EXPECT_EQ(actors_.hosted_by(kHost), (std::vector<ActorId>{id(2), id(1)})) << "as they came";
  EXPECT_EQ(actors_.hosts_on(1), std::vector<ProcessId>{kHost});
  actors_.host(second, kHost, 0);
  EXPECT_EQ(actors_.hosted_by(kHost).size(), 2u) << "told twice";
  EXPECT_EQ(second.pid, 4711) << "an unknown pid is no news";
  actors_.host(second, kOther, 0);
  EXPECT_EQ(actors_.hosted_by(kHost), std::vector<ActorId>{id(1)}) << "it runs elsewhere";
  EXPECT_EQ(actors_.hosted_by(kOther), std::vector<ActorId>{id(2)});
  actors_.leave(second);
  EXPECT_EQ(second.process, ProcessId{});
  EXPECT_EQ(second.node, 0u);
  actors_.remove(id(1));
  EXPECT_TRUE(actors_.hosts_on(1).empty());
}

TEST_F(ActorTableTest, ATB3_WhatANodesActorsAskedForIsSummed) {
  const auto placed = [&](std::uint64_t n, double cpus, std::uint32_t node) -> ActorRecord& {
    ActorRecord& actor = add(id(n));
    actor.spec.resources.cpus = cpus;
    actors_.place(actor, node);
    return actor;
  };
  ActorRecord& first = placed(1, 2, 1);
  placed(2, 1, 1);
  placed(3, 0, 2);
  EXPECT_EQ(actors_.held().at(1).cpu, 3 * sched::kUnit);
  EXPECT_FALSE(actors_.held().contains(2)) << "it asked for nothing";
  actors_.place(first, 2);
  EXPECT_EQ(actors_.held().at(1).cpu, sched::kUnit) << "it moved";
  EXPECT_EQ(actors_.held().at(2).cpu, 2 * sched::kUnit);
  actors_.leave(first);
  actors_.leave(first);
  EXPECT_FALSE(actors_.held().contains(2));
  actors_.remove(id(2));
  EXPECT_TRUE(actors_.held().empty());
}

TEST_F(ActorTableTest, ATB2_ListsAreInTheOrderOfIds) {
  for (std::uint64_t n : {9u, 4u, 7u, 1u}) actors_.place(add(id(n)), 1);
  add(id(5), kJob + 1);
  EXPECT_EQ(actors_.of_job(kJob), (std::vector<ActorId>{id(1), id(4), id(7), id(9)}));
  EXPECT_EQ(actors_.all().size(), 5u);
  for (std::uint64_t n : {9u, 4u}) actors_.find(id(n))->phase = Phase::kStarting;
  EXPECT_EQ(actors_.starting_on(1), (std::vector<ActorId>{id(4), id(9)}));
  EXPECT_TRUE(actors_.starting_on(2).empty());
  EXPECT_EQ(actors_.any_of(kJob + 1), id(5));
  EXPECT_FALSE(actors_.any_of(kJob + 2));
}

class JobSurvivorsTest : public ActorTableTest {
 protected:
  ActorRecord& detached(ActorId id, ProcessId process) {
    ActorRecord& actor = live(id, process);
    actor.spec.lifetime = Lifetime::kDetached;
    return actor;
  }
  LightTable light_;
  JobSurvivors survivors_{actors_, light_};
};

TEST_F(JobSurvivorsTest, JS1_DetachedActorsStayWithAllThatTheirProcessesMade) {
  const ActorId child{kHost, 1}, grandchild{kOther, 1}, light{kHost, 2};
  live(grandchild, kFar);
  live(child, kOther);
  detached(id(1), kHost);
  live(id(2), {1, 12});
  light_.add(light, {1, 13}, kJob, light_.kind_of("Light"));
  light_.add({kDriver, 50}, {1, 14}, kJob, light_.kind_of("Light"));
  const JobSurvivors::Staying staying = survivors_.of(kJob);
  std::vector<ActorId> expected{id(1), child, grandchild, light};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(staying.actors, expected);
  EXPECT_TRUE(staying.stays(grandchild));
  EXPECT_FALSE(staying.stays(id(2)));
  EXPECT_TRUE(staying.may_stay({1, 13}));
  EXPECT_FALSE(staying.may_stay({1, 12}));
  EXPECT_TRUE(survivors_.of(kJob + 1).actors.empty());
}

TEST_F(JobSurvivorsTest, JS1_WhatWasKilledDoesNotStay) {
  detached(id(1), kHost).told_dead = true;
  EXPECT_TRUE(survivors_.of(kJob).actors.empty());
}

TEST_F(JobSurvivorsTest, WhereALightActorIsStartingAnyProcessMayStay) {
  ActorRecord& actor = detached(id(1), kHost);
  actors_.leave(actor);
  actor.spec.isolation = Isolation::kLight;
  actor.phase = Phase::kStarting;
  actor.node = 2;
  const JobSurvivors::Staying staying = survivors_.of(kJob);
  EXPECT_TRUE(staying.may_stay(kFar));
  EXPECT_FALSE(staying.may_stay(kHost));
}

TEST_F(JobSurvivorsTest, JS2_TheDeathOfTheLastOneIsSaidOnce) {
  const ActorId child{kHost, 1}, light{kHost, 2};
  detached(id(1), kHost);
  live(child, kOther);
  light_.add(light, {1, 13}, kJob, light_.kind_of("Light"));
  survivors_.leave(kJob, survivors_.of(kJob));
  actors_.remove(child);
  EXPECT_FALSE(survivors_.last_died(kJob, child));
  actors_.remove(id(1));
  EXPECT_FALSE(survivors_.last_died(kJob, id(1)));
  light_.remove(light);
  EXPECT_TRUE(survivors_.last_died(kJob, light));
  EXPECT_FALSE(survivors_.last_died(kJob, light));
}

TEST_F(JobSurvivorsTest, JS2_AJobThatLeavesNothingHasNoLastOne) {
  live(id(1), kHost);
  survivors_.leave(kJob, survivors_.of(kJob));
  actors_.remove(id(1));
  EXPECT_FALSE(survivors_.last_died(kJob, id(1)));
}

}  // namespace
}  // namespace troupe::head
