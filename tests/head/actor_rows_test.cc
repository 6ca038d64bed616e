// What listings show of actors, by itself; what callers are told of one. Through the head: jobs_kv_list_test.cc.
#include "core/head/state/actors/actor_rows.h"

#include <gtest/gtest.h>

namespace troupe::head {
namespace {

const ProcessId kDriver{1, 1}, kHost{1, 10};
constexpr JobId kJob = 1;

class ActorRowsTest : public ::testing::Test {
 protected:
  ActorRecord& add(std::uint64_t sequence, JobId job) {
    wire::ActorSpec spec;
    spec.id = {kDriver, sequence};
    spec.job = job;
    spec.class_name = "Counter";
    return actors_.add(std::move(spec));
  }
  std::vector<std::string> column(const char* key, JobId job = 0) {
    std::vector<std::string> list;
    for (const auto& row : rows_.of_job(job).rows) list.push_back(row.at(key));
    return list;
  }

  ActorTable actors_;
  LightTable light_;
  Graveyard dead_;
  Membership membership_{MembershipOptions{}};
  Jobs jobs_;
  ActorRows rows_{{actors_, light_, dead_, membership_, jobs_}};
};

TEST_F(ActorRowsTest, TheLivingByTheirIdsThenLightOnesThenTheDead) {
  add(2, kJob).phase = ActorRecord::Phase::kAlive;
  add(1, kJob);
  light_.add({kDriver, 9}, kHost, kJob, light_.kind_of("Light"));
  DeadActor dead;
  dead.id = {kDriver, 5};
  dead.job = kJob;
  dead.class_name = "Adder";
  dead_.bury(std::move(dead));
  EXPECT_EQ(column("state"), (std::vector<std::string>{"PENDING", "ALIVE", "ALIVE", "DEAD"}));
  EXPECT_EQ(column("class_name"), (std::vector<std::string>{"Counter", "Counter", "Light", "Adder"}));
  EXPECT_EQ(column("actor_id").front(), to_string(ActorId{kDriver, 1}));
}

TEST_F(ActorRowsTest, OfOneJobOnlyItsOwn) {
  add(1, kJob);
  add(2, kJob + 1);
  light_.add({kDriver, 9}, kHost, kJob + 1, light_.kind_of("Light"));
  DeadActor dead;
  dead.id = {kDriver, 5};
  dead.job = kJob + 1;
  dead_.bury(std::move(dead));
  EXPECT_EQ(column("actor_id", kJob), std::vector<std::string>{to_string(ActorId{kDriver, 1})});
  EXPECT_EQ(column("actor_id").size(), 4u);
}

TEST_F(ActorRowsTest, WhatIsBetweenTwoLivesIsRestarting) {
  ActorRecord& actor = add(1, kJob);
  actor.restarts = 1;
  actor.phase = ActorRecord::Phase::kBackoff;
  EXPECT_EQ(column("state"), std::vector<std::string>{"RESTARTING"});
  EXPECT_EQ(column("restarts"), std::vector<std::string>{"1"});
}

TEST_F(ActorRowsTest, CallersOfAKilledActorHearThatItIsDeadWhileItsProcessEnds) {
  ActorRecord& actor = add(1, kJob);
  actor.phase = ActorRecord::Phase::kKilling;
  EXPECT_EQ(actor.location(membership_).state, wire::ActorState::kRestarting);
  actor.told_dead = true;
  const wire::ActorLocation where = actor.location(membership_);
  EXPECT_EQ(where.state, wire::ActorState::kDead);
  ASSERT_TRUE(where.error);
  EXPECT_EQ(where.error->code, ErrorCode::kActorDied);
}

}  // namespace
}  // namespace troupe::head
