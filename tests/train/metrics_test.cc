// The watch over a run that loses its way.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "apps/train/trainer/metrics.h"

namespace troupe::train {
namespace {

std::int64_t diverges_at(DivergenceWatch& watch, std::int64_t from, std::int64_t to, double (*loss)(std::int64_t)) {
  for (std::int64_t step = from; step < to; ++step) {
    const Status status = watch.observe(step, loss(step), 1);
    if (status.ok()) continue;
    EXPECT_NE(dynamic_cast<const DivergedError*>(&status.error()), nullptr);
    return step;
  }
  return -1;
}

TEST(TrainWatch, NaNAndInfinityAreSeenAtOnce) {
  DivergenceWatch watch;
  EXPECT_TRUE(watch.observe(1, 2.0, 1.0).ok());
  EXPECT_FALSE(watch.observe(2, std::nan(""), 1.0).ok());
  EXPECT_FALSE(watch.observe(2, 2.0, std::numeric_limits<double>::infinity()).ok());
}

TEST(TrainWatch, ARisingLossEndsTheRunAndANoisyOneDoesNot) {
  DivergenceWatch rising({.rise = 1.5, .patience = 20, .smoothing = 0.9});
  const std::int64_t at = diverges_at(
      rising, 0, 1000, [](std::int64_t step) { return step < 100 ? 1.0 : 1.0 + 0.02 * double(step - 100); });
  EXPECT_GT(at, 120);
  EXPECT_LT(at, 200);
  DivergenceWatch noisy({.rise = 1.5, .patience = 20, .smoothing = 0.9});
  EXPECT_EQ(diverges_at(noisy, 0, 1000, [](std::int64_t step) { return step % 10 == 0 ? 3.0 : 1.0; }), -1);
  DivergenceWatch only_nan({.rise = 0});
  EXPECT_EQ(diverges_at(only_nan, 0, 1000, [](std::int64_t step) { return double(step + 1); }), -1);
}

// MT-2: what a checkpoint keeps is enough.
TEST(TrainWatch, ARestoredWatchComesToTheSameVerdict) {
  const WatchOptions options{.rise = 1.2, .patience = 30, .smoothing = 0.95};
  const auto loss = [](std::int64_t step) { return 1.0 + std::max(0.0, 0.01 * double(step - 50)); };
  DivergenceWatch whole(options), first(options), second(options);
  const std::int64_t at = diverges_at(whole, 0, 1000, loss);
  ASSERT_GT(at, 90);
  EXPECT_EQ(diverges_at(first, 0, 80, loss), -1);
  second.restore(first.state());
  EXPECT_EQ(diverges_at(second, 80, 1000, loss), at);
}

}  // namespace
}  // namespace troupe::train
