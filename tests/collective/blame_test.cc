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

TEST(BlameTest, BL2_InARingTheOneIsNamedThatMostWaitFor) {
  std::vector<Standing> ranks{{},
                              {.sequence = 5, .waits_in = 5, .awaited = {3}},  // out of date
                              {.sequence = 5, .waits_in = 5, .awaited = {1}},
                              {.sequence = 5, .waits_in = 5, .awaited = {1}},
                              {.sequence = 5, .waits_in = 5, .awaited = {1}}};
  EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {3}}, ranks), Ranks{1});
  ranks.resize(2);
  ranks[1].awaited = {0};
  EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {1}}, ranks), Ranks{1}) << "each waits for the other";
  ranks[1].sequence = 6;
  EXPECT_EQ(to_blame({.rank = 0, .sequence = 5, .awaited = {1}}, ranks), Ranks{1}) << "its data is under way";
}

}  // namespace
}  // namespace troupe::collective
