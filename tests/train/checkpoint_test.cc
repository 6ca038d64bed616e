// Checkpoints: what is in the file, what is refused, and that a resumed run repeats the curve bit for bit.
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/train/checkpoint/checkpoint.h"
#include "apps/common/safetensors/safetensors.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/tiny.h"

namespace troupe::train {
namespace {

using namespace testing;
using collective::Group;

class TrainCheckpoint : public ::testing::Test {
 protected:
  static Snapshot<float> snapshot(std::int64_t step) {
    Snapshot<float> s{.step = step,
                      .parameters = {},
                      .moments = {},
                      .watch = {.average = 0.1, .best = 0.3, .seen = step, .above = 2},
                      .words = {{"model", "tiny"}}};
    for (int i = 0; i < 10; ++i)
      s.parameters.push_back(float(i) * 0.1f), s.moments[0].push_back(float(i)), s.moments[1].push_back(-float(i));
    return s;
  }
  inline static const Layout layout{{"w", {2, 4}, 0, 8, true}, {"b", {2}, 8, 2, false}};
  inline static const std::map<std::string, std::string> setting{{"schedule", "constant"}, {"sampler", "all"}};

  const test::TemporaryFolder folder_;
};

TEST_F(TrainCheckpoint, EverythingComesBack) {
  ASSERT_TRUE(save_snapshot(folder_ / "a", layout, snapshot(7), setting).ok());
  const auto back = load_snapshot<float>(folder_ / "a", layout, setting);
  ASSERT_TRUE(back.ok()) << back.error().what();
  const Snapshot<float> expected = snapshot(7);
  EXPECT_EQ(back->step, 7);
  EXPECT_EQ(back->parameters, expected.parameters);
  EXPECT_EQ(back->moments, expected.moments);
  EXPECT_EQ(back->words, expected.words);
  EXPECT_EQ(back->watch.average, 0.1);
  EXPECT_EQ(back->watch.best, 0.3);
  EXPECT_EQ(back->watch.above, 2);
}

// TST-2: cut at any byte, or with any byte of it changed, it is refused with a type; nothing is read beyond it.
TEST_F(TrainCheckpoint, ATruncatedOrDamagedFileIsATypedError) {
  ASSERT_TRUE(save_snapshot(folder_ / "a", layout, snapshot(7), setting).ok());
  const std::string bytes = test::bytes_of(folder_ / "a");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    test::put(folder_ / "b", bytes.substr(0, size));
    const auto result = load_snapshot<float>(folder_ / "b", layout, setting);
    ASSERT_FALSE(result.ok()) << size;
    ASSERT_EQ(result.error().code(), ErrorCode::kSerialization) << size << ": " << result.error().what();
  }
  for (std::size_t at = bytes.size() - 120; at < bytes.size(); ++at) {  // all of the data
    std::string damaged = bytes;
    damaged[at] = char(damaged[at] ^ 1);
    test::put(folder_ / "b", damaged);
    const auto result = load_snapshot<float>(folder_ / "b", layout, setting);
    ASSERT_FALSE(result.ok());
    EXPECT_NE(std::string(result.error().what()).find("damaged"), std::string::npos);
  }
  test::put(folder_ / "b", bytes + "x");
  EXPECT_EQ(load_snapshot<float>(folder_ / "b", layout, setting).error().code(), ErrorCode::kSerialization);
}

TEST_F(TrainCheckpoint, AForeignFileIsATypedError) {
  const auto code = [&](const std::string& bytes) {
    test::put(folder_ / "f", bytes);
    const auto result = load_snapshot<float>(folder_ / "f", layout, setting);
    return result.ok() ? ErrorCode::kUser : result.error().code();
  };
  const auto with_header = [](const std::string& header, const std::string& data = "") {
    const std::uint64_t size = header.size();
    return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
  };
  EXPECT_EQ(code("PK\x03\x04 this is a zip file, or so it says"), ErrorCode::kSerialization);
  EXPECT_EQ(code(std::string(100, '\xff')), ErrorCode::kSerialization);
  EXPECT_EQ(code(with_header("{}")), ErrorCode::kSerialization) << "well-formed, but no checkpoint";
  EXPECT_EQ(code(with_header("[1]")), ErrorCode::kSerialization);
  EXPECT_EQ(code(with_header(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd")),
            ErrorCode::kSerialization);
  EXPECT_EQ(code(with_header(R"({"w":{"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,4]}})", "abcd")),
            ErrorCode::kSerialization);
  EXPECT_EQ(code(with_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "abcdefgh")),
            ErrorCode::kSerialization)
      << "a gap";
  EXPECT_EQ(load_snapshot<float>(folder_ / "nowhere", layout, setting).error().code(), ErrorCode::kNotFound);
}

TEST_F(TrainCheckpoint, AnotherModelOrSettingIsNamed) {
  ASSERT_TRUE(save_snapshot(folder_ / "a", layout, snapshot(7), setting).ok());
  const auto refused = [&](const Layout& other, const std::map<std::string, std::string>& with,
                           const std::string& word) {
    const auto result = load_snapshot<float>(folder_ / "a", other, with);
    return !result.ok() && result.error().code() == ErrorCode::kInvalidArgument &&
           result.error().message().find(word) != std::string::npos;
  };
  EXPECT_TRUE(refused({{"w", {4, 2}, 0, 8, true}, {"b", {2}, 8, 2, false}}, setting, "w"));
  EXPECT_TRUE(refused({{"v", {2, 4}, 0, 8, true}, {"b", {2}, 8, 2, false}}, setting, "v"));
  EXPECT_TRUE(refused(layout, {{"schedule", "cosine"}}, "schedule"));
  EXPECT_EQ(load_snapshot<double>(folder_ / "a", layout, setting).error().code(), ErrorCode::kInvalidArgument);
}

// TCK-2
TEST_F(TrainCheckpoint, TheLastAndTheBestAreKept) {
  CheckpointFolder folder({.path = folder_ / "run", .keep_last = 2});
  const double scores[] = {3, 1, 2, 4, 1.5};
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(folder.save(layout, snapshot(10 * (i + 1)), setting, scores[i]).ok());
  EXPECT_EQ(folder.steps(), (std::vector<std::int64_t>{40, 50}));
  const auto best = load_snapshot<float>(folder.best_file(), layout, setting);
  ASSERT_TRUE(best.ok()) << best.error().what();
  EXPECT_EQ(best->step, 20);
  ASSERT_TRUE(CheckpointFolder({.path = folder_ / "run", .keep_last = 2}).save(layout, snapshot(60), setting, 0.5).ok())
      << "another process knows the best too";
  EXPECT_EQ(load_snapshot<float>(folder.best_file(), layout, setting)->step, 60);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_ / "run")) ++files;
  EXPECT_EQ(files, 3u) << "nothing else is left";
}

// TCK-3
TEST_F(TrainCheckpoint, ADamagedNewestIsPassedOverAndNamed) {
  CheckpointFolder folder({.path = folder_.path(), .keep_last = 3});
  EXPECT_EQ(folder.load_newest<float>(layout, setting).error().code(), ErrorCode::kNotFound);
  for (int step : {10, 20}) ASSERT_TRUE(folder.save(layout, snapshot(step), setting).ok());
  test::put(folder.file_of(20), test::bytes_of(folder.file_of(20)).substr(0, 300));
  std::vector<std::string> passed_over;
  const auto newest = folder.load_newest<float>(layout, setting, &passed_over);
  ASSERT_TRUE(newest.ok());
  EXPECT_EQ(newest->step, 10);
  ASSERT_EQ(passed_over.size(), 1u);
  EXPECT_NE(passed_over[0].find("step-000000020"), std::string::npos);
}

// TCK-3: foreign, of another setting, of a larger model, under a wrong name: each is passed over and named.
TEST_F(TrainCheckpoint, WhateverIsNotGoodIsPassedOverForTheNewestGoodOne) {
  CheckpointFolder folder({.path = folder_.path(), .keep_last = 9});
  ASSERT_TRUE(folder.save(layout, snapshot(10), setting).ok());
  ASSERT_TRUE(
      save_snapshot(folder.file_of(20), layout, snapshot(20), {{"schedule", "cosine"}, {"sampler", "all"}}).ok());
  const Layout larger{{"w", {2, 4}, 0, 8, true}, {"b", {2}, 8, 2, false}, {"c", {1}, 10, 1, false}};
  Snapshot<float> wide = snapshot(30);
  for (auto* values : {&wide.parameters, &wide.moments[0], &wide.moments[1]}) values->push_back(1);
  ASSERT_TRUE(save_snapshot(folder.file_of(30), larger, wide, setting).ok());
  ASSERT_TRUE(save_snapshot(folder.file_of(40), layout, snapshot(10), setting).ok());
  test::put(folder.file_of(50), "not ours at all");
  test::put(folder_ / "step-60.safetensors", "no name of ours");
  std::vector<std::string> passed_over;
  const auto newest = folder.load_newest<float>(layout, setting, &passed_over);
  ASSERT_TRUE(newest.ok()) << newest.error().what();
  EXPECT_EQ(newest->step, 10);
  const char* const words[] = {"safetensors", "holds step 10", "moment.0.c", "another schedule"};
  ASSERT_EQ(passed_over.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NE(passed_over[i].find("step-0000000" + std::to_string(50 - 10 * int(i))), std::string::npos)
        << passed_over[i];
    if (i != 2) { EXPECT_NE(passed_over[i].find(words[i]), std::string::npos) << passed_over[i]; }
  }
  EXPECT_NE(passed_over[2].find("another model"), std::string::npos) << passed_over[2];
  EXPECT_EQ(load_snapshot<float>(folder.file_of(30), layout, setting).error().code(), ErrorCode::kInvalidArgument);
}

// TCK-4: with keep_last = 1, whatever lies about: the good one just saved stays, and what is not ours is not touched.
TEST_F(TrainCheckpoint, KeepLastCountsAndRemovesOnlyGoodOnes) {
  CheckpointFolder first({.path = folder_.path(), .keep_last = 9});
  for (int step : {10, 20, 30}) ASSERT_TRUE(first.save(layout, snapshot(step), setting).ok());
  test::put(first.file_of(20), test::bytes_of(first.file_of(20)).substr(0, 300));
  test::put(first.file_of(900), "foreign");
  ASSERT_TRUE(
      save_snapshot(first.file_of(25), layout, snapshot(25), {{"schedule", "cosine"}, {"sampler", "all"}}).ok());
  test::put(first.best_file(), "foreign, too");

  CheckpointFolder resumed({.path = folder_.path(), .keep_last = 1});
  ASSERT_TRUE(resumed.save(layout, snapshot(15), setting, 0.5).ok());
  EXPECT_EQ(resumed.steps(), (std::vector<std::int64_t>{15, 20, 25, 30, 900})) << "10 went for 15; 30 is later";
  EXPECT_EQ(load_snapshot<float>(resumed.best_file(), layout, setting)->step, 15);
  ASSERT_TRUE(resumed.save(layout, snapshot(27), setting).ok());
  EXPECT_EQ(resumed.steps(), (std::vector<std::int64_t>{20, 25, 27, 30, 900}));
  test::put(resumed.file_of(27), "damaged after it was saved");
  ASSERT_TRUE(resumed.save(layout, snapshot(28), setting).ok());
  ASSERT_TRUE(resumed.save(layout, snapshot(40), setting).ok());
  EXPECT_EQ(resumed.steps(), (std::vector<std::int64_t>{20, 25, 27, 40, 900})) << "28 and 30 went for 40";
}

TEST_F(TrainCheckpoint, AFolderThatCannotBeWrittenIsATypedErrorAndLeavesNothing) {
  test::put(folder_ / "file", "not a folder");
  const Status status = save_snapshot(folder_ / "file" / "a", layout, snapshot(1), setting);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kRuntimeEnv);
}

// TCK-1: stopped after five steps and resumed in new objects, the loss curve and the end are the same bits.
TEST_F(TrainCheckpoint, AResumedRunRepeatsTheCurveBitForBit) {
  constexpr std::size_t kInputs = 3000, kClasses = 4;
  const TinyData data(50, kInputs, kClasses);
  for (const Rule rule : {Rule::kAdamW, Rule::kSgd})
    for (Zero zero : {Zero::k0, Zero::k1}) {
      const auto path = folder_ / (std::to_string(int(zero)) + std::to_string(int(rule)));
      on_threads(2, [&](Group g) {
        TrainerOptions options{
            .seed = 3,
            .targets_per_row = 1,
            .zero = zero,
            .buckets = {.first_bytes = 16 << 10, .bytes = 32 << 10},
            .optimizer = {.rule = rule, .weight_decay = 0.01},
            .schedule = {.base_rate = 0.01, .warmup_steps = 3, .decay = Decay::kCosine, .decay_steps = 20},
            .max_norm = 1};
        CheckpointFolder folder({.path = path});
        std::vector<double> curve, resumed;
        LinearModel<float> model(kInputs, kClasses);
        auto whole = make_trainer<float>(model, data, 12, options);
        whole->bind(g);
        ASSERT_TRUE(whole->start().ok());
        for (int i = 0; i < 12; ++i) {
          if (i == 5) {
            const auto snapshot = gather_snapshot(*whole);
            if (g.rank() == 0) { ASSERT_TRUE(folder.save(model.layout(), snapshot, setting_of(*whole)).ok()); }
          }
          const StepMetrics metrics = whole->step().value();
          if (i >= 5) curve.push_back(metrics.loss), curve.push_back(metrics.gradient_norm);
        }
        LinearModel<float> again(kInputs, kClasses);
        auto trainer = make_trainer<float>(again, data, 12, options);
        trainer->bind(g);
        Snapshot<float> snapshot;
        if (g.rank() == 0) snapshot = folder.load_newest<float>(again.layout(), setting_of(*trainer)).value();
        scatter_snapshot(*trainer, snapshot);
        EXPECT_EQ(trainer->steps_done(), 5);
        for (int i = 5; i < 12; ++i) {
          const StepMetrics metrics = trainer->step().value();
          resumed.push_back(metrics.loss), resumed.push_back(metrics.gradient_norm);
        }
        EXPECT_EQ(resumed, curve);
        EXPECT_TRUE(std::ranges::equal(trainer->parameters(), whole->parameters()));
        EXPECT_EQ(trainer->watch().state().average, whole->watch().state().average);
      });
    }
}

}  // namespace
}  // namespace troupe::train
