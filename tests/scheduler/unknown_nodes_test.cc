// Nodes that were asked for and are not known (SUN-1, SUN-2 of unknown_nodes.h).
#include "scheduler/unknown_nodes.h"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

using namespace std::chrono_literals;
const TimePoint kStart = TimePoint{} + 1h;

TEST(UnknownNodes, SUN1_AnIdIsAwaitedOnce) {
  UnknownNodes nodes;
  EXPECT_EQ(nodes.awaited_until("a", kStart, 1s), kStart + 1s);
  EXPECT_EQ(nodes.awaited_until("a", kStart + 400ms, 1s), kStart + 1s);
  EXPECT_EQ(nodes.awaited_until("a", kStart + 1s, 1s), std::nullopt);
  EXPECT_EQ(nodes.awaited_until("a", kStart + 1h, 1s), std::nullopt);
  EXPECT_EQ(nodes.awaited_until("b", kStart + 1h, 1s), kStart + 1h + 1s);
}

TEST(UnknownNodes, ANodeThatWasThereIsNotAwaited) {
  UnknownNodes nodes;
  nodes.gone("a");
  EXPECT_EQ(nodes.awaited_until("a", kStart, 1s), std::nullopt);
}

TEST(UnknownNodes, SUN2_TheIdThatWasMetFirstIsForgotten) {
  UnknownNodes nodes;
  for (std::size_t i = 0; i <= UnknownNodes::kKept; ++i) nodes.gone(std::to_string(i));
  EXPECT_TRUE(nodes.awaited_until("0", kStart, 1s));
  EXPECT_FALSE(nodes.awaited_until(std::to_string(UnknownNodes::kKept), kStart, 1s));
}

}  // namespace
}  // namespace troupe::sched
