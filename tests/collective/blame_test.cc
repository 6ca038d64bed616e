#include "collective/tcp/blame.h"

#include <gtest/gtest.h>

namespace troupe::collective {
namespace {

using Ranks = std::vector<int>;

TEST(BlameTest, WhoHasNotComeIsNamedAndWhoHasToldNothingAmongThem) {
  EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {1}}, {{}, {.sequence = 5}, {.sequence = 4}, {}}),
            (Ranks{2, 3}));
  EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {2}}, {{}, {.sequence = 5}, {.sequence = 5}}), Ranks{2});
}

TEST(BlameTest, BL1_WhoWaitsInAStepBeforeIsNotNamedButTheOneItWaitsFor) {
  const std::vector<Standing> ranks{{}, {.sequence = 4}, {.sequence = 4, .waits_in = 4, .awaited = {1}}};
  EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {1, 2}}, ranks), Ranks{1});
}

TEST(BlameTest, BL1_TheChainIsFollowedWithinAStep) {
  const std::vector<Standing> ranks{{},
                                    {.sequence = 5, .waits_in = 5, .awaited = {2}},
                                    {.sequence = 5, .waits_in = 5, .awaited = {3, 0}},
                                    {.sequence = 5}};
  EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {1}}, ranks), Ranks{3});
}

TEST(BlameTest, AWordThatIsOutOfDateExcusesNobody) {
  // it came to a later step since
  EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {1}},
                     {{}, {.sequence = 5, .waits_in = 4, .awaited = {2}}, {.sequence = 5}}),
            Ranks{1});
  // the one it waited for has passed that step, and so has this rank
  EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {1}},
                     {{}, {.sequence = 4, .waits_in = 4, .awaited = {0, 2}}, {.sequence = 5}}),
            Ranks{1});
  // it told that it waits no more
  EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {1}}, {{}, {.sequence = 4, .waits_in = 4}, {.sequence = 5}}),
            Ranks{1});
}

TEST(BlameTest, BL1_WhoIsThroughIsNotNamedWhoeverWaitsForIt) {
  const std::vector<Standing> ranks{{.sequence = 5, .through = 5},
                                    {.sequence = 5, .waits_in = 5, .awaited = {0}},  // 0 has given it all
                                    {.sequence = 5, .through = 5, .waits_in = 5, .awaited = {1}},
                                    {}};
  EXPECT_EQ(to_blame({.rank = 3, .sequence = 5, .awaited = {1}}, ranks), Ranks{1});
  EXPECT_EQ(to_blame({.rank = 3, .sequence = 5, .awaited = {2, 1}}, ranks), Ranks{1});
}

// 3 told that it waits for 1, got it, and stands still; who waits for it said so later.
TEST(BlameTest, InARingTheOneIsNamedThatSaidItsWordFirst) {
  std::vector<Standing> ranks{{},
                              {.sequence = 5, .waits_in = 5, .awaited = {3}, .heard = 8},
                              {.sequence = 5, .waits_in = 5, .awaited = {3}, .heard = 3},
                              {.sequence = 5, .waits_in = 5, .awaited = {1}, .heard = 4},
                              {.sequence = 5, .waits_in = 5, .awaited = {2}, .heard = 2}};
  for (const int awaited : {1, 2, 3, 4})
    EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {awaited}}, ranks), Ranks{3}) << awaited;
}

TEST(BlameTest, BL2_SomebodyIsNamedWhereAllWaitOrAreThrough) {
  std::vector<Standing> ranks{{}, {.sequence = 5, .waits_in = 5, .awaited = {0}, .heard = 1}};
  EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {1}}, ranks), Ranks{1}) << "each waits for the other";
  ranks[1].sequence = 6;
  EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {1}}, ranks), Ranks{1}) << "its data is under way";
}

}  // namespace
}  // namespace troupe::collective
