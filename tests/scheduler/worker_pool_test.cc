#include "scheduler/worker_pool.h"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

using namespace std::chrono_literals;

class WorkerPoolTest : public ::testing::Test {
 protected:
  void ready(ProcessId worker) { pool_.ready(worker, 100, kPlain, now_); }

  const WorkerKind kPlain = worker_kind(1, {});
  const ProcessId kFirst{1, 1}, kSecond{1, 2};
  WorkerPool pool_;
  TimePoint now_{1s};
};

TEST_F(WorkerPoolTest, WPL1_TheOneThatWasUsedLastIsIdleFirst) {
  ready(kFirst);
  now_ += 1s;
  ready(kSecond);
  EXPECT_EQ(pool_.idle_of(kPlain), kSecond);
  EXPECT_EQ(pool_.idle_count(kPlain), 2u);
  EXPECT_EQ(pool_.surplus(1, now_), std::vector<ProcessId>{kFirst});
  EXPECT_TRUE(pool_.surplus(1, now_ - 1s).empty()) << "not idle since before then";
  EXPECT_FALSE(pool_.idle_of(worker_kind(2, {}))) << "another job's";

  EXPECT_FALSE(pool_.lease(kSecond, 7).shared);
  EXPECT_EQ(pool_.idle_of(kPlain), kFirst);
  EXPECT_EQ(pool_.state(kSecond), "LEASED");
  EXPECT_FALSE(pool_.take(kSecond)) << "only idle ones are taken";
  pool_.lease_ended(kSecond, 7, now_);
  EXPECT_EQ(pool_.idle_of(kPlain), kSecond);
  EXPECT_TRUE(pool_.take(kSecond));
  EXPECT_FALSE(pool_.contains(kSecond));
  EXPECT_EQ(pool_.audit({}), "");
}

/// The actor's ordinary end ends its process: what a task has left there that others hold went with it.
TEST_F(WorkerPoolTest, WPL5_WhoHadALeaseIsNoActors) {
  ready(kFirst);
  ready(kSecond);
  pool_.lease(kSecond, 7);
  pool_.lease_ended(kSecond, 7, now_);
  EXPECT_EQ(pool_.take(kPlain), kFirst) << "kSecond was used last, and may own what others hold";
  EXPECT_EQ(pool_.take(kPlain), std::nullopt);
  EXPECT_TRUE(pool_.take(kSecond)) << "it is asked before it ends";
  pool_.ready(kSecond, 100, kPlain, now_, WorkerPast::kTasks);  // and refuses
  EXPECT_EQ(pool_.take(kPlain), std::nullopt);
  EXPECT_EQ(pool_.idle_of(kPlain), kSecond);
}

TEST_F(WorkerPoolTest, WPL1_WhoIsEndingIsIdleNoMore) {
  ready(kFirst);
  pool_.lease(kFirst, 7);
  EXPECT_TRUE(pool_.end(kFirst));
  EXPECT_FALSE(pool_.end(kFirst)) << "once";
  EXPECT_FALSE(pool_.end(kSecond)) << "unknown";
  pool_.lease_ended(kFirst, 7, now_);
  EXPECT_FALSE(pool_.idle_of(kPlain));
}

/// Else each burst of short tasks took the stock, and the node forked a new one.
TEST_F(WorkerPoolTest, WPL1_TasksLeaveTheStockAlone) {
  ready(kFirst);
  pool_.lease(kFirst, 7);
  pool_.lease_ended(kFirst, 7, now_);
  ready(kSecond);
  EXPECT_EQ(pool_.idle_of(kPlain), kFirst);
  pool_.lease(kFirst, 8);
  EXPECT_EQ(pool_.idle_of(kPlain), kSecond) << "there is no other";
}

/// The stock for actors is not what retires so that workers for tasks stay, nor the other way round.
TEST_F(WorkerPoolTest, WPL5_SoManyStayForTasksAndSoManyForActors) {
  const std::vector<ProcessId> used = {{1, 11}, {1, 12}, {1, 13}}, fresh = {{1, 21}, {1, 22}};
  for (ProcessId worker : fresh) ready(worker);
  for (ProcessId worker : used) ready(worker);
  for (ProcessId worker : used) pool_.lease(worker, worker.serial);
  EXPECT_EQ(pool_.fresh_count(kPlain), 2u);
  for (ProcessId worker : used) pool_.lease_ended(worker, worker.serial, now_);
  EXPECT_EQ(pool_.idle_count(kPlain), 5u);
  EXPECT_EQ(pool_.fresh_count(kPlain), 2u);
  now_ += 1s;
  EXPECT_EQ(pool_.surplus(2, now_), std::vector{used[0]});
  EXPECT_EQ(pool_.surplus(1, now_), (std::vector{fresh[0], used[0], used[1]}));
  EXPECT_EQ(pool_.surplus(3, now_), std::vector<ProcessId>{});
  EXPECT_EQ(pool_.take(kPlain), fresh[1]);
  EXPECT_TRUE(pool_.died(fresh[0]).empty());
  pool_.forget(fresh[0]);
  EXPECT_EQ(pool_.fresh_count(kPlain), 0u);
  EXPECT_EQ(pool_.audit({}), "");
}

TEST_F(WorkerPoolTest, WPL2_BlockedIsWhoHasATaskThatWaitsAndTheOneWithTheFewestLeasesIsShared) {
  ready(kFirst);
  ready(kSecond);
  pool_.lease(kFirst, 1);
  EXPECT_TRUE(pool_.lease(kFirst, 2).shared);
  pool_.lease(kSecond, 3);
  EXPECT_FALSE(pool_.blocked_of(kPlain));
  pool_.task_waits(kFirst, 1, true);
  pool_.task_waits(kFirst, 2, true);
  EXPECT_EQ(pool_.blocked(), 1) << "a worker counts once";
  EXPECT_EQ(pool_.blocked_of(kPlain), kFirst);
  pool_.task_waits(kSecond, 3, true);
  EXPECT_EQ(pool_.blocked_of(kPlain), kSecond);
  EXPECT_EQ(pool_.state(kSecond), "BLOCKED");
  EXPECT_EQ(pool_.audit({1, 2, 3}), "");

  pool_.task_waits(kFirst, 1, false);
  EXPECT_EQ(pool_.blocked(), 2) << "its other task still waits";
  pool_.lease_ended(kFirst, 2, now_);
  EXPECT_EQ(pool_.blocked(), 1);
  pool_.task_waits(kSecond, 3, false);
  pool_.lease_renewed(kSecond, 3, 4);
  EXPECT_EQ(pool_.blocked(), 0);
  EXPECT_EQ(pool_.audit({1, 4}), "");
  EXPECT_NE(pool_.audit({1}), "") << "a lease that is gone is noticed";
}

TEST_F(WorkerPoolTest, WPL3_NoMoreAreStartedThanAreMissing) {
  EXPECT_EQ(pool_.to_start(kPlain, 3), 3);
  EXPECT_EQ(pool_.to_start(kPlain, 3), 0);
  EXPECT_EQ(pool_.to_start(kPlain, 4), 1);
  ready(kFirst);
  pool_.not_coming(kPlain);
  EXPECT_EQ(pool_.to_start(kPlain, 3), 1);
  pool_.job_ended(1);
  EXPECT_EQ(pool_.to_start(kPlain, 1), 1);
}

TEST_F(WorkerPoolTest, WPL4_ADeadWorkerIsNeitherLeasedNorTaken) {
  ready(kFirst);
  EXPECT_TRUE(pool_.died(kFirst).empty());
  EXPECT_FALSE(pool_.idle_of(kPlain));
  EXPECT_FALSE(pool_.take(kFirst));
  pool_.forget(kFirst);

  ready(kSecond);
  pool_.lease(kSecond, 1);
  pool_.task_waits(kSecond, 1, true);
  EXPECT_EQ(pool_.died(kSecond), std::set<std::uint64_t>{1});
  EXPECT_FALSE(pool_.blocked_of(kPlain)) << "it shares nothing with anybody";
  pool_.lease_ended(kSecond, 1, now_);
  EXPECT_EQ(pool_.blocked(), 0);
  EXPECT_FALSE(pool_.idle_of(kPlain));
  pool_.forget(kSecond);
  EXPECT_TRUE(pool_.state(kSecond).empty());
  EXPECT_TRUE(pool_.died(kSecond).empty());
}

}  // namespace
}  // namespace troupe::sched
