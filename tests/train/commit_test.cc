// Which commit survivors choose: pure, by what the ranks say of themselves.
#include <gtest/gtest.h>

#include "apps/train/checkpoint/commit.h"

namespace troupe::train {
namespace {

CommitHeader whole(std::int64_t step, std::int64_t epoch, int ranks, int rank) {
  return {.complete = 1, .step = step, .epoch = epoch, .ranks = ranks, .rank = rank};
}
CommitHeader half(std::int64_t step, std::int64_t epoch, int ranks, int rank) {
  return {.complete = 0, .step = step, .epoch = epoch, .ranks = ranks, .rank = rank};
}

// CO-3
TEST(TrainCommit, TheNewestOneThatIsWholeIsChosen) {
  // Rank 1 of three is gone in the middle of commit 20, which rank 2 alone has completed.
  const std::vector<RankHeader> headers{{1, {whole(10, 1, 3, 0), half(20, 1, 3, 0)}},
                                        {1, {whole(10, 1, 3, 2), whole(20, 1, 3, 2)}}};
  const auto sharded = choose_commit(headers, Zero::k1);
  ASSERT_TRUE(sharded);
  EXPECT_EQ(sharded->name, (CommitName{10, 1})) << "of step 20 the shard of rank 0 is in nobody's complete memory";
  EXPECT_TRUE(sharded->all_have_it);
  EXPECT_EQ(sharded->shards, (std::vector<int>{0, 1, 1}))
      << "old rank 1's shard is with its partner, old rank 2, now rank 1";
  const auto replicated = choose_commit(headers, Zero::k0);
  ASSERT_TRUE(replicated);
  EXPECT_EQ(replicated->name, (CommitName{20, 1})) << "without shards one rank's copy is the whole state";
  EXPECT_EQ(replicated->parameters, 1);
  EXPECT_FALSE(replicated->all_have_it);
}

TEST(TrainCommit, ShardAndPartnerBothLostIsNoCommit) {
  const std::vector<RankHeader> headers{
      {1, {whole(10, 1, 3, 0), whole(20, 1, 3, 0)}}};  // of three, ranks 1 and 2 are gone
  EXPECT_FALSE(choose_commit(headers, Zero::k1));
  EXPECT_TRUE(choose_commit(headers, Zero::k0));
  const std::vector<RankHeader> other{{1, {whole(10, 1, 4, 0), {}}},
                                      {1, {whole(10, 1, 4, 2), {}}}};  // every second one of four
  const auto choice = choose_commit(other, Zero::k1);
  ASSERT_TRUE(choice) << "each lost shard has its partner";
  EXPECT_EQ(choice->shards, (std::vector<int>{0, 1, 1, 0}));
}

TEST(TrainCommit, ANewcomerIsGivenWhatTheOthersHave) {
  const std::vector<RankHeader> headers{{1, {whole(10, 1, 2, 0), {}}}, {1, {whole(10, 1, 2, 1), {}}}, {}};
  const auto choice = choose_commit(headers, Zero::k1);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->ranks, 2);
  EXPECT_FALSE(choice->all_have_it);
  EXPECT_FALSE(choose_commit(std::vector<RankHeader>(3), Zero::k0)) << "nobody has anything: the start";
}

// EL-3
TEST(TrainCommit, TheNewestCheckpointOfAnyDiskIsReadFirst) {
  const auto with = [](std::int64_t step) {
    RankHeader header;
    header.on_disk = step;
    return header;
  };
  EXPECT_EQ(checkpoint_readers(std::vector{with(-1), with(5), with(9), with(9), with(5), with(-1)}),
            (std::vector{2, 1}));
  EXPECT_TRUE(checkpoint_readers(std::vector{with(-1), with(-1)}).empty());
}

// CO-1: the same step, committed again by the next group, is another commit.
TEST(TrainCommit, TheSameStepInALaterEpochIsNewer) {
  const std::vector<RankHeader> headers{{1, {whole(10, 1, 3, 0), whole(10, 2, 2, 0)}},
                                        {1, {whole(10, 1, 3, 2), half(10, 2, 2, 1)}}};
  EXPECT_EQ(choose_commit(headers, Zero::k1)->name, (CommitName{10, 2}))
      << "rank 0 holds its own shard and that of rank 1";
  const std::vector<RankHeader> neither{{1, {whole(10, 1, 3, 0), half(10, 2, 2, 0)}},
                                        {1, {whole(10, 1, 3, 2), half(10, 2, 2, 1)}}};
  EXPECT_EQ(choose_commit(neither, Zero::k1)->name, (CommitName{10, 1}));
}

}  // namespace
}  // namespace troupe::train
