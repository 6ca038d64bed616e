// NRM-1 to NRM-4, RMO-1 to RMO-3, FST-1, CKF-1, CKF-2: wrappers around environments, and the moments that they learn.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/envs/wrappers/check_finite.h"
#include "apps/rl/envs/wrappers/frame_stack.h"
#include "apps/rl/envs/wrappers/normalize.h"
#include "apps/rl/envs/wrappers/simple.h"

namespace rl {
namespace {

/// Two numbers that the test chooses; environment i ends after `length[i]` steps, and its next episode's first
/// observation is {100, i}.
class Scripted final : public BatchEnv {
 public:
  explicit Scripted(std::vector<int> lengths, AutoReset mode = AutoReset::kSameStep)
      : mode_(mode), lengths_(std::move(lengths)), steps_(lengths_.size()), pending_(lengths_.size()) {
    specs_.id = "Scripted-v0";
    specs_.observation_space = Box{.dtype = DType::kFloat32, .shape = {2}, .low = {-1, -2}, .high = {1, 2}};
    specs_.action_space = Box{.dtype = DType::kFloat32, .shape = {2}, .low = {-1, 0}, .high = {1, 4}};
    final_ = OwnedRows(specs_.observation_space, size());
    obs_ = OwnedRows(specs_.observation_space, size());
  }
  const EnvSpecs& specs() const override { return specs_; }
  std::size_t size() const override { return lengths_.size(); }
  void reset(std::span<const std::uint64_t>) override {
    for (std::size_t i = 0; i < size(); ++i) reset_one(i);
  }
  void reset_one(std::size_t i) override {
    steps_[i] = 0;
    set(i, 100, static_cast<float>(i));
  }
  void observe(Rows obs) const override { std::memcpy(obs.data(), obs_.view().data(), obs_.view().bytes()); }
  void step(ConstRows actions, const StepOut& out) override {
    taken.assign(actions.as<float>().begin(), actions.as<float>().end());
    ended_.clear(), returns_.clear();
    for (std::size_t i = 0; i < size(); ++i) {
      out.is_reset[i] = pending_[i];
      out.reward[i] = pending_[i] != 0 ? 0 : reward;
      out.terminated[i] = out.truncated[i] = 0;
      if (std::exchange(pending_[i], std::uint8_t{0}) != 0) {
        reset_one(i);
        continue;
      }
      set(i, static_cast<float>(++steps_[i]), next);
      if (steps_[i] < lengths_[i]) continue;
      out.terminated[i] = 1;
      ended_.push_back(static_cast<std::uint32_t>(i));
      returns_.push_back(reward * lengths_[i]);
      std::memcpy(final_.view().row(ended_.size() - 1).data(), obs_.view().row(i).data(), obs_.view().row_bytes());
      if (mode_ == AutoReset::kSameStep) reset_one(i);
      else pending_[i] = 1;
    }
    observe(out.obs);
  }
  EpisodeEnds ends() const override {
    return {ended_, returns_, {}, final_.view().slice(0, mode_ == AutoReset::kSameStep ? ended_.size() : 0)};
  }

  bool visit(StateVisitor&) override { return true; }

  double reward = 1;
  float next = 0;  // the second number of the next observations
  std::vector<float> taken;

 private:
  void set(std::size_t i, float first, float second) {
    obs_.as<float>()[2 * i] = first;
    obs_.as<float>()[2 * i + 1] = second;
  }
  AutoReset mode_;
  EnvSpecs specs_;
  std::vector<int> lengths_, steps_;
  std::vector<std::uint8_t> pending_;
  std::vector<std::uint32_t> ended_;
  std::vector<double> returns_;
  OwnedRows obs_, final_;
};

/// Steps a wrapped environment with zeros.
class Steps {
 public:
  explicit Steps(BatchEnv& env) : env_(env), last(env), actions_(env.specs().action_space, env.size()) {
    env.reset(std::vector<std::uint64_t>(env.size()));
  }
  StepBuffers& step() {
    env_.step(actions_.view(), last.out());
    return last;
  }
  std::span<float> actions() { return actions_.as<float>(); }

 private:
  BatchEnv& env_;

 public:
  StepBuffers last;

 private:
  OwnedRows actions_;
};

std::vector<float> floats(ConstRows rows) { return {rows.as<float>().begin(), rows.as<float>().end()}; }

TEST(RunningMomentsTest, RMO1_MomentsOfPartsAreThoseOfTheWhole) {
  Generator random(3);
  std::vector<double> all(3 * 1000);
  for (double& x : all) x = 1e3 + random.uniform(-1, 1);
  RunningMoments whole(3), merged(3);
  ASSERT_TRUE(whole.add(std::span<const double>(all)));
  for (std::size_t begin = 0, rows = 1; begin < 1000; begin += rows, rows = rows * 2 + 1) {
    RunningMoments part(3);
    ASSERT_TRUE(part.add(std::span<const double>(all).subspan(3 * begin, 3 * std::min(rows, 1000 - begin))));
    merged.merge(part);
  }
  EXPECT_EQ(merged.count(), 1000);
  for (std::size_t k = 0; k < 3; ++k) {
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < 1000; ++i) mean += all[3 * i + k] / 1000;
    for (std::size_t i = 0; i < 1000; ++i) squares += (all[3 * i + k] - mean) * (all[3 * i + k] - mean) / 1000;
    for (const RunningMoments* one : {&whole, &merged}) {
      EXPECT_NEAR(one->mean()[k], mean, 1e-9);
      EXPECT_NEAR(one->variance(k), squares, 1e-9);
    }
  }
}

TEST(RunningMomentsTest, RMO3_WhatIsNotFiniteChangesNothing) {
  RunningMoments moments(1);
  ASSERT_TRUE(moments.add(std::span<const float>(std::vector<float>{1, 2})));
  const RunningMoments before = moments;
  EXPECT_FALSE(moments.add(std::span<const float>(std::vector<float>{1, NAN})));
  EXPECT_EQ(moments, before);
  EXPECT_EQ(RunningMoments::with_prior(2).variance(1), 1);
}

TEST(NormalizeTest, NRM1_ObservationsAreCountedOnceAndFinalOnesAreNot) {
  auto made = NormalizeObservation::make(std::make_unique<Scripted>(std::vector<int>{2, 9}), {}).value();
  Steps steps(*made);
  RunningMoments want = RunningMoments::with_prior(2);
  want.add(std::span<const float>(std::vector<float>{100, 0, 100, 1}));
  EXPECT_EQ(made->moments().now(), want);
  steps.step();
  want.add(std::span<const float>(std::vector<float>{1, 0, 1, 0}));
  EXPECT_NEAR(made->moments().now().mean()[0], want.mean()[0], 1e-12);
  EXPECT_NEAR(made->moments().now().variance(0), want.variance(0), 1e-9);
  const StepBuffers& last = steps.step();  // the first ends with {2, 0}, and {100, 0} is shown
  want.add(std::span<const float>(std::vector<float>{100, 0, 2, 0}));
  const auto normal = [&](double x, std::size_t k) {
    return static_cast<float>((x - want.mean()[k]) / std::sqrt(want.variance(k) + 1e-8));
  };
  EXPECT_NEAR(last.obs.as<float>()[0], normal(100, 0), 1e-5);
  EXPECT_NEAR(last.obs.as<float>()[2], normal(2, 0), 1e-5);
  ASSERT_EQ(made->ends().final_obs.rows(), 1u);
  EXPECT_NEAR(made->ends().final_obs.as<float>()[0], normal(2, 0), 1e-5);
  EXPECT_EQ(made->moments().now().count(), want.count());
}

TEST(NormalizeTest, NRM2_AFrozenOneLearnsNothing) {
  auto made = NormalizeObservation::make(std::make_unique<Scripted>(std::vector<int>{9}), {.frozen = true}).value();
  RunningMoments base(2);
  base.add(std::span<const float>(std::vector<float>{0, 0, 2, 4}));  // mean 1 and 2, deviation 1 and 2
  made->moments().sync(base);
  Steps steps(*made);
  const StepBuffers& last = steps.step();
  EXPECT_EQ(made->moments().now(), base);
  EXPECT_NEAR(last.obs.as<float>()[0], 0, 1e-6);
  EXPECT_NEAR(last.obs.as<float>()[1], -1, 1e-6);
}

TEST(NormalizeTest, RunnersLearnTogetherByDeltas) {
  RunningMoments base = RunningMoments::with_prior(2);
  RunningMoments whole = base;
  for (int runner : {0, 1}) {
    auto made = NormalizeObservation::make(std::make_unique<Scripted>(std::vector<int>{5, 5}), {}).value();
    Steps steps(*made);
    for (int t = 0; t < 3 + runner; ++t) steps.step();
    const RunningMoments delta = made->moments().take_delta();
    EXPECT_EQ(delta.count(), 2 * (4 + runner));
    base.merge(delta);
    made->moments().sync(base);
    EXPECT_EQ(made->moments().now(), base);
    EXPECT_EQ(made->moments().take_delta().count(), 0) << "what was sent is not sent again";
  }
  EXPECT_NEAR(base.count(), whole.count() + 18, 1e-9);
}

TEST(NormalizeTest, NRM3_RewardsAreDividedByTheDeviationOfTheReturn) {
  auto inner = std::make_unique<Scripted>(std::vector<int>{2, 3});
  inner->reward = 4;
  NormalizeReward env(std::move(inner), {.gamma = 0.5});
  Steps steps(env);
  RunningMoments want = RunningMoments::with_prior(1);
  const std::vector<std::vector<double>> returns{{4, 4}, {6, 6}, {4, 7}, {6, 4}};  // an end begins the return anew
  for (const std::vector<double>& now : returns) {
    const StepBuffers& last = steps.step();
    want.add(std::span<const double>(now));
    const double reward = 4 / std::sqrt(want.variance(0) + 1e-8);
    EXPECT_NEAR(last.reward[0], std::min(reward, 10.0), 1e-9);
    EXPECT_NEAR(last.reward[1], std::min(reward, 10.0), 1e-9);
  }
  EXPECT_EQ(env.ends().returns[0], 8) << "episodes' returns are raw";
}

TEST(NormalizeTest, NRM4_WhatIsNotFiniteIsNamed) {
  auto inner = std::make_unique<Scripted>(std::vector<int>{9, 9});
  Scripted& script = *inner;
  auto made = NormalizeObservation::make(std::move(inner), {}).value();
  Steps steps(*made);
  script.next = std::numeric_limits<float>::infinity();
  try {
    steps.step();
    ADD_FAILURE() << "nobody noticed";
  } catch (const troupe::InvalidArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("environment 0 of Scripted-v0"), std::string::npos) << error.what();
  }
}

std::string refusal(const std::function<void()>& step) {
  try {
    step();
  } catch (const troupe::InvalidArgumentError& error) {
    return error.what();
  }
  return "nobody noticed";
}

TEST(CheckFiniteTest, CKF1_WhatIsNotFiniteIsNamedWithSeedAndStep) {
  for (const double bad : {NAN, INFINITY, -INFINITY}) {
    auto inner = std::make_unique<Scripted>(std::vector<int>{9, 2});
    Scripted& script = *inner;
    CheckFinite env(std::move(inner));
    Steps steps(env);
    env.reset(std::vector<std::uint64_t>{70, 80});
    script.next = std::numeric_limits<float>::max(), script.reward = std::numeric_limits<double>::max();
    steps.step();
    script.reward = bad;
    const std::string of_reward = refusal([&] { steps.step(); });
    EXPECT_NE(of_reward.find(fmt::format("environment 0 of Scripted-v0 (seed 70) gave in step 2 the reward {}", bad)),
              std::string::npos)
        << of_reward;
    env.reset(std::vector<std::uint64_t>{70, 80});
    script.reward = 1, script.next = 0;
    steps.step();
    script.next = static_cast<float>(bad);  // environment 1 ends by this step, and shows the next episode's first
    const std::string last = refusal([&] { steps.step(); });
    EXPECT_NE(last.find("environment 1 of Scripted-v0 (seed 80) gave in step 2 the last observation"),
              std::string::npos)
        << last;
    env.reset(std::vector<std::uint64_t>{70, 80});
    const std::string shown = refusal([&] { steps.step(); });
    EXPECT_NE(shown.find("environment 0 of Scripted-v0 (seed 70) gave in step 1 the observation"), std::string::npos)
        << shown;
  }
}

TEST(CheckFiniteTest, CKF2_AStateTellsSeedsAndStepsAndThereIsNoneAfterARefusal) {
  auto inner = std::make_unique<Scripted>(std::vector<int>{9});
  Scripted& script = *inner;
  CheckFinite env(std::move(inner));
  Steps steps(env);
  env.reset(std::vector<std::uint64_t>{70});
  steps.step(), steps.step();
  const auto kept = save_state(env);
  ASSERT_TRUE(kept);
  script.next = NAN;
  (void)refusal([&] { steps.step(); });
  EXPECT_FALSE(save_state(env));

  const auto said_after = [&](const StateDict& state) {
    auto other = std::make_unique<Scripted>(std::vector<int>{9});
    other->next = NAN;
    CheckFinite going_on(std::move(other));
    Steps more(going_on);
    EXPECT_TRUE(restore_state(going_on, state));
    return refusal([&] { more.step(); });
  };
  EXPECT_NE(said_after(*kept).find("(seed 70) gave in step 3"), std::string::npos) << said_after(*kept);
  // A state of before there was this wrapper.
  EXPECT_NE(said_after({}).find("(seed unknown) gave in step 1"), std::string::npos) << said_after({});
}

TEST(FrameStackTest, FST1_FramesOfTwoEpisodesNeverMeet) {
  for (AutoReset mode : {AutoReset::kSameStep, AutoReset::kNextStep}) {
    auto made = FrameStack::make(std::make_unique<Scripted>(std::vector<int>{2}, mode), 3).value();
    EXPECT_EQ(shape_of(made->specs().observation_space), (std::vector<std::size_t>{3, 2}));
    EXPECT_TRUE(check_space(made->specs().observation_space).ok());
    EXPECT_EQ(std::get<Box>(made->specs().observation_space).low_of(3), -2);
    Steps steps(*made);
    OwnedRows first(made->specs().observation_space, 1);
    made->observe(first.view());
    EXPECT_EQ(floats(first.view()), (std::vector<float>{100, 0, 100, 0, 100, 0}));
    EXPECT_EQ(floats(steps.step().obs.view()), (std::vector<float>{100, 0, 100, 0, 1, 0}));
    const std::vector<float> end{100, 0, 1, 0, 2, 0}, begin{100, 0, 100, 0, 100, 0};
    if (mode == AutoReset::kSameStep) {
      EXPECT_EQ(floats(steps.step().obs.view()), begin);
      EXPECT_EQ(floats(made->ends().final_obs), end);
    } else {
      EXPECT_EQ(floats(steps.step().obs.view()), end);
      EXPECT_EQ(floats(steps.step().obs.view()), begin);
    }
    EXPECT_EQ(floats(steps.step().obs.view()), (std::vector<float>{100, 0, 100, 0, 1, 0}));
  }
  EXPECT_FALSE(FrameStack::make(std::make_unique<Scripted>(std::vector<int>{2}), 0).ok());
}

TEST(SimpleWrappersTest, ActionsAndRewardsAreBroughtWithinBounds) {
  auto inner = std::make_unique<Scripted>(std::vector<int>{9});
  Scripted& script = *inner;
  auto rescaled = RescaleAction::make(ClipReward::make(std::move(inner), -1, 0.5).value()).value();
  EXPECT_EQ(std::get<Box>(rescaled->specs().action_space).low_of(1), -1);
  Steps steps(*rescaled);
  steps.actions()[0] = 0.5f, steps.actions()[1] = -0.5f;
  EXPECT_EQ(steps.step().reward[0], 0.5);
  EXPECT_EQ(script.taken, (std::vector<float>{0.5f, 1}));

  auto second = std::make_unique<Scripted>(std::vector<int>{9});
  Scripted& clipped = *second;
  auto clip = ClipAction::make(std::move(second)).value();
  EXPECT_TRUE(std::isinf(std::get<Box>(clip->specs().action_space).high_of(0)));
  Steps far(*clip);
  far.actions()[0] = 7, far.actions()[1] = -7;
  far.step();
  EXPECT_EQ(clipped.taken, (std::vector<float>{1, 0}));
  EXPECT_FALSE(ClipReward::make(std::move(clip), 1, -1).ok());
}

}  // namespace
}  // namespace rl
