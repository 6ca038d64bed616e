// A rank's loop and its notebook: when it leaves its group for newcomers, and what it then tells.
#include <gtest/gtest.h>

#include "apps/train/program/rank_loop.h"
#include "tests/train/tiny.h"

namespace troupe::train {
namespace {

using namespace testing;
using collective::Group;

constexpr std::size_t kInputs = 6, kClasses = 3;

class TinyJob final : public Job {
 public:
  explicit TinyJob(const RunSettings& run) : sampling_{.rows = data_.rows(), .batch = run.batch, .seed = run.seed} {}
  Model<float>& model() override { return model_; }
  const SamplerOptions& sampling() const override { return sampling_; }
  std::size_t targets_per_row() const override { return 1; }
  Loader training() override { return data_.loader(); }
  Loader validation() override { return data_.loader(); }
  std::size_t validation_rows() const override { return data_.rows(); }
  const char* unit() const override { return "rows"; }
  std::size_t units_per_row() const override { return 1; }
  bool has_accuracy() const override { return true; }
  Result<std::string> sample(std::span<const float>, const SampleOptions&) override {
    return InvalidArgumentError("writes no text");
  }

 private:
  LinearModel<float> model_{kInputs, kClasses};
  TinyData data_{60, kInputs, kClasses};
  SamplerOptions sampling_;
};

RunSettings settings() { return {.steps = 12, .batch = 12, .evaluate_every = 0, .commit_every = 2}; }

// NB-3: the driver forms the next group, and tells of a newcomer for it, while this rank is still busy with a step of
// the group that broke.
TEST(TrainRankLoop, WhatIsAnnouncedForTheNextGroupOutlastsTheFailureOfTheOneBefore) {
  const std::vector<SegmentPtr> epochs = {make_segment(2, 1), make_segment(1, 2), make_segment(1, 3)};
  Notebook stays, goes;
  std::thread lost([&] {
    TinyJob job(settings());
    int steps = 0;
    const RankHooks hooks{.on_note = [&] {
      if (++steps != 4) return;  // its beginning and three steps; the next commit needs both ranks
      stays.announce_newcomer(2);
      epochs[0]->fail({collective::Reason::kDied, "the second rank", {1}});
    }};
    const auto result = train_rank(job, settings(), make_group(epochs[0], 1), goes, hooks);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code(), ErrorCode::kCollective);
  });
  std::vector<std::uint64_t> left;
  const RankHooks hooks{.regroup = [&](const Group& group) -> Result<Group> {
    left.push_back(group.epoch());
    return make_group(epochs.at(left.size()), 0);
  }};
  TinyJob job(settings());
  const auto result = train_rank(job, settings(), make_group(epochs[0], 0), stays, hooks);
  lost.join();
  ASSERT_TRUE(result.ok()) << result.error().what();
  EXPECT_EQ(result->outcome.steps, settings().steps);
  EXPECT_EQ(left, (std::vector<std::uint64_t>{1, 2})) << "epoch 2 was to be left for the newcomer";
  EXPECT_EQ(stays.take().parted_epoch, 2u);
}

}  // namespace
}  // namespace troupe::train
