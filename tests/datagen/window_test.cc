// WIN-1: enough shards are open that workers do not wait, and not more bytes than allowed.
#include <gtest/gtest.h>

#include "apps/datagen/run/window.h"

namespace datagen {
namespace {

TEST(Window, FollowsWhatShardsTake) {
  Window window({.workers = 4, .open_bytes = 1 << 20});
  EXPECT_EQ(window.open_max(), 8u);
  for (int i = 0; i < 100; ++i) window.finished(10.0, 100);
  EXPECT_EQ(window.open_max(), 8u) << "slow shards: one waits behind each worker";
  for (int i = 0; i < 200; ++i) window.finished(0.0001, 100);
  EXPECT_EQ(window.open_max(), 4 * Window::kDeepest) << "quick ones";
  for (int i = 0; i < 200; ++i) window.finished(0.0001, 1 << 18);
  EXPECT_EQ(window.open_max(), 4u) << "large ones: four of them fit";
  for (int i = 0; i < 200; ++i) window.finished(0.0001, std::uint64_t{1} << 40);
  EXPECT_EQ(window.open_max(), 1u) << "one in any case";
}

TEST(Window, NoneWaitsWhenItIsToldSo) {
  Window window({.workers = 3, .ahead = false});
  EXPECT_EQ(window.open_max(), 3u);
  window.finished(0.0001, 1);
  EXPECT_EQ(window.open_max(), 3u);
}

}  // namespace
}  // namespace datagen
