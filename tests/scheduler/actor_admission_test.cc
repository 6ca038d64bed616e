// Actors that hold resources of a node, and those that wait for some (actor_admission.h).
#include "scheduler/actor_admission.h"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

using namespace std::chrono_literals;

ActorId actor(std::uint64_t number) { return {{1, 1}, number}; }
ResourceSet cpus(double count) { return ResourceSet::from_map({{"CPU", count}}); }

struct ActorAdmissionTest : testing::Test {
  LocalResources resources{cpus(4)};
  ActorAdmission actors{resources, {.node = 7, .wait = 500ms, .wait_for_tasks = 2s}};
  TimePoint now = TimePoint{} + 1h;
};

TEST_F(ActorAdmissionTest, ADM1_OnlyTasksMakeWay) {
  const auto task = resources.take(cpus(1));
  actors.wait(actor(1), 0, cpus(2), now);
  ASSERT_EQ(actors.admit().size(), 1u);
  actors.wait(actor(2), 0, cpus(2), now);  // the task has one of them
  EXPECT_TRUE(actors.admit().empty());
  EXPECT_EQ(actors.kept_back(), cpus(2));
  EXPECT_TRUE(actors.one_lacks(cpus(1)));
  actors.wait(actor(3), 0, cpus(3), now);  // another actor has what this one needs
  EXPECT_TRUE(actors.admit().empty());
  EXPECT_EQ(actors.kept_back(), cpus(2));
  EXPECT_TRUE(actors.leave_room_for(cpus(2)));
  EXPECT_FALSE(actors.leave_room_for(cpus(3)));
  resources.give_back(*task, false);
  const auto admitted = actors.admit();
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted[0].actor, actor(2));
  EXPECT_EQ(actors.held(), cpus(4));
  EXPECT_FALSE(actors.one_lacks(cpus(1)));
}

TEST_F(ActorAdmissionTest, LaterOnesDoNotTakeWhatIsKept) {
  const auto task = resources.take(cpus(3));
  actors.wait(actor(1), 0, cpus(2), now);
  actors.wait(actor(2), 0, cpus(1), now);
  EXPECT_TRUE(actors.admit().empty());
  now += 500ms;
  EXPECT_TRUE(actors.give_up(now).empty());  // the first waits on, and keeps nothing any more
  const auto admitted = actors.admit();
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted[0].actor, actor(2));
}

TEST_F(ActorAdmissionTest, ADM1_NothingIsKeptWhereAnotherActorIsInTheWay) {
  actors.wait(actor(1), 0, cpus(2), now);
  ASSERT_EQ(actors.admit().size(), 1u);
  actors.wait(actor(2), 0, cpus(3), now);
  actors.wait(actor(3), 0, cpus(1), now);
  const auto admitted = actors.admit();
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted[0].actor, actor(3));
}

TEST_F(ActorAdmissionTest, ADM2_GivenUpOnceAndGoneOnce) {
  actors.wait(actor(1), 2, cpus(3), now);
  ASSERT_EQ(actors.admit().size(), 1u);
  actors.wait(actor(2), 0, cpus(2), now);
  now += 499ms;
  EXPECT_TRUE(actors.give_up(now).empty());
  now += 1ms;  // an actor has it: no use in waiting for tasks
  const auto given_up = actors.give_up(now);
  ASSERT_EQ(given_up.size(), 1u);
  EXPECT_EQ(given_up[0].actor, actor(2));
  EXPECT_EQ(given_up[0].reason, "node 7 has {CPU: 1} free, the actor needs {CPU: 2}");
  EXPECT_TRUE(actors.give_up(now).empty());
  actors.gone(actor(2), 0);
  actors.gone(actor(1), 1);  // another life of it
  EXPECT_EQ(actors.held(), cpus(3));
  const auto task = resources.take(cpus(1));
  actors.gone(actor(1), 2);
  actors.gone(actor(1), 2);
  EXPECT_EQ(actors.held(), ResourceSet{});
  EXPECT_EQ(resources.available(), cpus(3));
  actors.wait(actor(3), 0, cpus(5), now);
  actors.gone(actor(3), 0);
  EXPECT_EQ(actors.waiting(), 0u);
}

TEST_F(ActorAdmissionTest, ADM3_DeadlinesComeOnce) {
  const auto task = resources.take(cpus(4));
  const TimePoint start = now;
  actors.wait(actor(1), 0, cpus(1), now);
  EXPECT_EQ(actors.next_deadline(), start + 500ms);
  EXPECT_TRUE(actors.give_up(start + 500ms).empty());
  EXPECT_EQ(actors.next_deadline(), start + 2s);
  EXPECT_EQ(actors.give_up(start + 2s).size(), 1u);
  EXPECT_EQ(actors.next_deadline(), std::nullopt);
}

TEST(ActorAdmission, ADM1_GpusComeInPieces) {
  LocalResources resources(ResourceSet::from_map({{"GPU", 2}}));
  ActorAdmission actors(resources, {.node = 1, .wait = 500ms, .wait_for_tasks = 2s});
  const auto gpus = [](double count) { return ResourceSet::from_map({{"GPU", count}}); };
  actors.wait(actor(1), 0, gpus(0.6), TimePoint{});
  actors.wait(actor(2), 0, gpus(0.6), TimePoint{});
  EXPECT_EQ(actors.admit().size(), 2u);
  EXPECT_TRUE(actors.leave_room_for(gpus(0.4)));
  EXPECT_FALSE(actors.leave_room_for(gpus(0.8)));  // in sum there is
}

}  // namespace
}  // namespace troupe::sched
