// EPW-1, ATR-1 to ATR-3, BE-2, BE-4: wrappers that begin and end episodes, several batches as one, masks and lives
// through wrappers.
#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/wrappers/atari.h"
#include "apps/rl/envs/wrappers/concat_env.h"
#include "apps/rl/envs/wrappers/image.h"
#include "apps/rl/envs/wrappers/same_step_reset.h"
#include "apps/rl/envs/wrappers/simple.h"
#include "apps/rl/envs/wrappers/time_limit.h"

namespace rl {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::string failure(const std::function<void()>& what) {
  try {
    what();
  } catch (const troupe::InvalidArgumentError& error) { return error.what(); }
  return {};
}

/// One game with frames of two pixels: the step of the game, and 100 + its number of games; on odd steps the first is
/// 0 (what blinks). Every `life_steps` steps a life is lost, of three. A reward is the action.
class Lives final : public BatchEnv {
 public:
  explicit Lives(int life_steps) : life_steps_(life_steps) {
    specs_.id = "Lives-v0";
    specs_.observation_space = Box{.dtype = DType::kUint8, .shape = {2}, .low = {0}, .high = {255}};
    specs_.action_space = Discrete{.n = 3};
  }
  const EnvSpecs& specs() const override { return specs_; }
  std::size_t size() const override { return 1; }
  void reset(std::span<const std::uint64_t>) override { reset_one(0); }
  void reset_one(std::size_t) override {
    ++games;
    steps = 0;
    lives_ = 3;
    over_ = false;
    taken.clear();
  }
  void observe(Rows obs) const override {
    obs.as<std::uint8_t>()[0] = static_cast<std::uint8_t>(steps % 2 == 1 ? 0 : steps);
    obs.as<std::uint8_t>()[1] = static_cast<std::uint8_t>(100 + games);
  }
  void step(ConstRows actions, const StepOut& out) override {
    if (over_) troupe::InvalidArgumentError("has ended").raise();
    taken.push_back(actions.as<std::int64_t>()[0]);
    faults_.clear();
    if (++steps == fault_at) {  // BE-7
      faults_.push_back({.length = steps - 1, .what = {}});
      reset_one(0);
    } else if (steps % life_steps_ == 0) {
      --lives_;
    }
    over_ = lives_ == 0;
    ended_.assign(over_ ? 1 : 0, 0);
    observe(out.obs);
    out.reward[0] = taken.empty() ? 0 : static_cast<double>(taken.back());
    out.terminated[0] = over_;
    out.truncated[0] = 0;
    out.is_reset[0] = !faults_.empty();
  }
  EpisodeEnds ends() const override { return {ended_, {}, {}, {}}; }
  std::span<const std::int32_t> lives() const override { return {&lives_, 1}; }
  std::span<const std::uint8_t> action_mask() const override { return mask; }
  std::span<const Fault> faults() const override { return faults_; }

  int games = 0, steps = 0;
  int fault_at = 0;                 // the step of a game that breaks it off; 0: none does
  std::vector<std::int64_t> taken;  // in this game
  Bytes mask{1, 0, 1};

 private:
  EnvSpecs specs_;
  int life_steps_;
  std::int32_t lives_ = 3;
  bool over_ = false;
  std::vector<std::uint32_t> ended_;
  std::vector<Fault> faults_;
};

/// Steps with one action for all.
class Steps {
 public:
  explicit Steps(BatchEnv& env) : env_(env), last(env), actions_(env.specs().action_space, env.size()) {
    std::vector<std::uint64_t> seeds(env.size());
    std::iota(seeds.begin(), seeds.end(), 4);
    env.reset(seeds);
  }
  StepBuffers& operator()(std::int64_t action) {
    for (std::int64_t& a : actions_.as<std::int64_t>()) a = action;
    env_.step(actions_.view(), last.out());
    return last;
  }
  Bytes now() const {
    OwnedRows rows(env_.specs().observation_space, env_.size());
    env_.observe(rows.view());
    return {rows.as<std::uint8_t>().begin(), rows.as<std::uint8_t>().end()};
  }
  Bytes shown() const { return {last.obs.as<std::uint8_t>().begin(), last.obs.as<std::uint8_t>().end()}; }

 private:
  BatchEnv& env_;

 public:
  StepBuffers last;

 private:
  OwnedRows actions_;
};

std::unique_ptr<BatchEnv> cartpoles(std::size_t n, std::optional<int> limit, AutoReset mode) {
  return make_batch_env("CartPole-v1", {.num_envs = n, .auto_reset = mode, .max_episode_steps = limit}).value();
}

TEST(TimeLimitTest, TheStepThatReachesTheShorterLimitIsTruncatedTerminatedOrNot) {
  const std::pair<int, std::optional<int>> limits[] = {{5, std::nullopt}, {5, 7}, {7, 5}};
  for (const auto& [outer, inner] : limits) {
    const auto env = TimeLimit::make(cartpoles(3, inner, AutoReset::kDisabled), outer).value();
    EXPECT_EQ(env->specs().max_episode_steps, 5);
    Steps step(*env);
    for (int episode = 0; episode < 3; ++episode) {
      for (int t = 1; t <= 5; ++t) {
        const StepBuffers& last = step(t % 2);
        EXPECT_EQ(last.truncated, Bytes(3, t == 5)) << t;
        EXPECT_EQ(last.terminated, Bytes(3, 0));
        EXPECT_EQ(env->ends().env.size(), t == 5 ? 3u : 0u);
      }
      EXPECT_EQ(env->ends().returns[2], 5);
      EXPECT_EQ(env->ends().lengths[2], 5);
      EXPECT_NE(failure([&] { step(0); }).find("environment 0 of CartPole-v1 has ended"), std::string::npos);
      for (std::size_t i = 0; i < 3; ++i) env->reset_one(i);
    }
    // Pushed to one side a pole falls in its ninth or tenth step: a step of both kinds of end has both flags.
    const auto alone = cartpoles(1, std::nullopt, AutoReset::kDisabled);
    Steps fall(*alone);
    int falls = 0;
    while (alone->ends().env.empty()) fall(1), ++falls;
    const auto both = TimeLimit::make(cartpoles(1, std::nullopt, AutoReset::kDisabled), falls).value();
    Steps again(*both);
    for (int t = 0; t < falls; ++t) again(1);
    EXPECT_EQ(again.last.terminated, Bytes{1});
    EXPECT_EQ(again.last.truncated, Bytes{1});
    EXPECT_EQ(both->ends().env.size(), 1u);
  }
  EXPECT_FALSE(TimeLimit::make(cartpoles(1, {}, AutoReset::kDisabled), 0).ok());
}

TEST(TimeLimitTest, EPW1_WhatResetsItselfIsRefused) {
  for (AutoReset mode : {AutoReset::kSameStep, AutoReset::kNextStep}) {
    const auto env = TimeLimit::make(cartpoles(1, 3, mode), 50).value();
    Steps step(*env);
    step(0), step(1);
    std::string said = failure([&] { step(0); });
    if (mode == AutoReset::kNextStep) {
      EXPECT_EQ(said, "");
      env->reset_one(0);
      said = failure([&] { for (int t = 0; t < 8; ++t) step(0); });
      EXPECT_TRUE(said.find("resets itself") != said.npos || said.find("has ended") != said.npos) << said;
    } else {
      EXPECT_NE(said.find("resets itself"), std::string::npos) << said;
    }
  }
  const auto env = std::make_unique<SameStepReset>(cartpoles(1, 3, AutoReset::kSameStep));
  Steps step(*env);
  step(0), step(1);
  EXPECT_NE(failure([&] { step(0); }).find("resets itself"), std::string::npos);
}

TEST(SameStepResetTest, BE2_IsTheSameAsWhatResetsItself) {
  SameStepReset got(TimeLimit::make(cartpoles(5, {}, AutoReset::kDisabled), 30).value());
  const auto want = cartpoles(5, 30, AutoReset::kSameStep);
  Steps a(got), b(*want);
  const auto floats = [](ConstRows rows) { return std::vector(rows.as<float>().begin(), rows.as<float>().end()); };
  std::size_t ends = 0;
  for (int t = 0; t < 300; ++t) {
    a(t / 2 % 2), b(t / 2 % 2);
    ASSERT_EQ(floats(a.last.obs.view()), floats(b.last.obs.view())) << t;
    ASSERT_EQ(a.last.terminated, b.last.terminated);
    ASSERT_EQ(a.last.truncated, b.last.truncated);
    const EpisodeEnds x = got.ends(), y = want->ends();
    ASSERT_EQ(std::vector(x.env.begin(), x.env.end()), std::vector(y.env.begin(), y.env.end()));
    ASSERT_EQ(std::vector(x.returns.begin(), x.returns.end()), std::vector(y.returns.begin(), y.returns.end()));
    ASSERT_EQ(std::vector(x.lengths.begin(), x.lengths.end()), std::vector(y.lengths.begin(), y.lengths.end()));
    ASSERT_EQ(floats(x.final_obs), floats(y.final_obs));
    ends += x.env.size();
  }
  EXPECT_GT(ends, 40u);
}

TEST(ConcatEnvTest, IsTheSameAsOneBatch) {
  for (AutoReset mode : {AutoReset::kSameStep, AutoReset::kNextStep, AutoReset::kDisabled}) {
    std::vector<std::unique_ptr<BatchEnv>> parts;
    for (std::size_t n : {2, 1, 3}) parts.push_back(cartpoles(n, 40, mode));
    const auto got = ConcatEnv::make(std::move(parts)).value();
    const auto want = cartpoles(6, 40, mode);
    ASSERT_EQ(got->size(), 6u);
    Steps a(*got), b(*want);
    for (int t = 0; t < 200; ++t) {
      a(t % 2), b(t % 2);
      ASSERT_EQ(a.last.obs.as<float>()[23], b.last.obs.as<float>()[23]);
      ASSERT_TRUE(std::equal(a.last.obs.as<float>().begin(), a.last.obs.as<float>().end(),
                             b.last.obs.as<float>().begin()));
      ASSERT_EQ(a.last.is_reset, b.last.is_reset);
      ASSERT_EQ(a.last.terminated, b.last.terminated);
      const EpisodeEnds x = got->ends(), y = want->ends();
      ASSERT_EQ(std::vector(x.env.begin(), x.env.end()), std::vector(y.env.begin(), y.env.end()));
      ASSERT_EQ(std::vector(x.returns.begin(), x.returns.end()), std::vector(y.returns.begin(), y.returns.end()));
      ASSERT_EQ(x.final_obs.rows(), y.final_obs.rows());
      for (std::size_t k = 0; k < x.final_obs.rows(); ++k)
        ASSERT_EQ(x.final_obs.row(k).as<float>()[2], y.final_obs.row(k).as<float>()[2]);
      if (mode == AutoReset::kDisabled)
        for (std::uint32_t env : std::vector(y.env.begin(), y.env.end())) got->reset_one(env), want->reset_one(env);
    }
  }
  EXPECT_FALSE(ConcatEnv::make({}).ok());
  std::vector<std::unique_ptr<BatchEnv>> other;
  other.push_back(cartpoles(1, {}, AutoReset::kDisabled));
  other.push_back(make_batch_env("Pendulum-v1", {}).value());
  EXPECT_FALSE(ConcatEnv::make(std::move(other)).ok());
}

TEST(ConcatEnvTest, MasksAndLivesComeThroughWrappers) {
  std::vector<std::unique_ptr<BatchEnv>> parts;
  std::vector<Lives*> games;
  for (int life_steps : {2, 3}) {
    auto game = std::make_unique<Lives>(life_steps);
    games.push_back(game.get());
    parts.push_back(ClipReward::make(std::move(game), -1, 1).value());
  }
  games[1]->mask = {0, 1, 1};
  const auto env = ConcatEnv::make(std::move(parts)).value();
  Steps step(*env);
  step(1), step(1);
  EXPECT_EQ(std::vector(env->lives().begin(), env->lives().end()), (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(std::vector(env->action_mask().begin(), env->action_mask().end()), (Bytes{1, 0, 1, 0, 1, 1}));
  games[0]->mask.clear();
  EXPECT_TRUE(env->action_mask().empty());
  EXPECT_TRUE(cartpoles(1, {}, AutoReset::kSameStep)->lives().empty());
}

TEST(AtariTest, NoOpStartsAreOneToTheMostAndDependOnTheSeedAlone) {
  std::vector<int> counts(7);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    auto game = std::make_unique<Lives>(50);
    Lives& inside = *game;
    const auto env = NoopReset::make(std::move(game), 6).value();
    env->reset(std::vector{seed});
    ++counts.at(inside.taken.size());
    EXPECT_EQ(inside.taken, std::vector<std::int64_t>(inside.taken.size(), 0));
    const std::size_t first = inside.taken.size();
    env->reset_one(0);
    const std::size_t second = inside.taken.size();
    env->reset(std::vector{seed});
    EXPECT_EQ(inside.taken.size(), first);
    env->reset_one(0);
    EXPECT_EQ(inside.taken.size(), second) << "the stream goes on";
  }
  EXPECT_EQ(counts[0], 0);
  for (int k = 1; k <= 6; ++k) EXPECT_GT(counts[static_cast<std::size_t>(k)], 4) << k;
  EXPECT_FALSE(NoopReset::make(std::make_unique<Lives>(3), 0).ok());
  EXPECT_FALSE(NoopReset::make(cartpoles(2, {}, AutoReset::kDisabled)).ok());
  EXPECT_FALSE(NoopReset::make(make_batch_env("Pendulum-v1", {}).value()).ok());
}

TEST(AtariTest, ATR1_ABeginningEndsWhereAnEpisodeCanGoOn) {
  auto game = std::make_unique<Lives>(1);  // over after three steps
  Lives& inside = *game;
  const auto env = FireReset::make(NoopReset::make(std::move(game), 30).value()).value();
  Steps step(*env);
  for (int t = 0; t < 40; ++t) {
    EXPECT_LT(inside.steps, 3);
    if (step(0).terminated[0] != 0) env->reset_one(0);
  }
}

TEST(AtariTest, FireBeginsAnEpisode) {
  auto game = std::make_unique<Lives>(50);
  Lives& inside = *game;
  const auto env = FireReset::make(std::move(game)).value();
  Steps step(*env);
  EXPECT_EQ(inside.taken, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(step.now(), (Bytes{2, 101}));
  env->reset_one(0);
  EXPECT_EQ(inside.taken, (std::vector<std::int64_t>{1, 2}));
  EXPECT_FALSE(FireReset::make(cartpoles(1, {}, AutoReset::kDisabled)).ok()) << "it has two actions";
}

TEST(AtariTest, ATR2_TheGreaterOfTheLastTwoFramesOfFour) {
  auto game = std::make_unique<Lives>(3);  // over after nine steps
  const auto env = MaxAndSkip::make(std::move(game), 4).value();
  Steps step(*env);
  EXPECT_EQ(step.now(), (Bytes{0, 101}));
  EXPECT_EQ(step(2).reward[0], 8);
  EXPECT_EQ(step.shown(), (Bytes{4, 101})) << "of steps 3 and 4, of which 3 shows nothing";
  EXPECT_EQ(step.now(), step.shown());
  step(1);
  EXPECT_EQ(step.last.terminated, Bytes{0});
  EXPECT_EQ(step(1).reward[0], 1) << "the ninth step ends the game";
  EXPECT_EQ(step.last.terminated, Bytes{1});
  EXPECT_EQ(step.shown(), (Bytes{0, 101})) << "one frame";
  env->reset_one(0);
  EXPECT_EQ(step.now(), (Bytes{0, 102}));
  const auto three = MaxAndSkip::make(std::make_unique<Lives>(50), 3).value();
  Steps odd(*three);
  odd(0);
  EXPECT_EQ(odd.shown(), (Bytes{2, 101})) << "of steps 2 and 3";
  EXPECT_FALSE(MaxAndSkip::make(std::make_unique<Lives>(3), 0).ok());
  EXPECT_FALSE(MaxAndSkip::make(cartpoles(1, {}, AutoReset::kDisabled)).ok());
}

TEST(AtariTest, ATR3_ALifeIsAnEpisodeAndTheGameGoesOn) {
  auto game = std::make_unique<Lives>(4);
  Lives& inside = *game;
  const auto env = EpisodicLife::make(std::move(game)).value();
  Steps step(*env);
  const auto until_end = [&] {
    int steps = 0;
    do ++steps;
    while (step(2).terminated[0] == 0);
    return steps;
  };
  EXPECT_EQ(until_end(), 4);
  EXPECT_EQ(env->ends().returns[0], 8);
  EXPECT_EQ(inside.games, 1);
  EXPECT_NE(failure([&] { step(0); }), "");
  env->reset_one(0);
  EXPECT_EQ(inside.games, 1);
  EXPECT_EQ(inside.taken.back(), 0) << "a no-op between lives";
  EXPECT_EQ(until_end(), 3);
  env->reset_one(0);
  EXPECT_EQ(until_end(), 3);
  EXPECT_EQ(inside.lives()[0], 0);
  env->reset_one(0);
  EXPECT_EQ(inside.games, 2);
  EXPECT_EQ(until_end(), 4);
  EXPECT_FALSE(EpisodicLife::make(cartpoles(1, {}, AutoReset::kDisabled)).ok());
}

// Before, the fourth of four frames ended the run, and the first three glued two games together.
TEST(AtariTest, BE7_AFaultInAnyFrameBeginsANewGame) {
  for (const int at : {1, 2, 3, 4, 6}) {
    std::vector<std::unique_ptr<BatchEnv>> games;
    std::vector<Lives*> inside;
    for (int i = 0; i < 2; ++i) {
      auto game = std::make_unique<Lives>(100);
      inside.push_back(game.get());
      auto skipping = MaxAndSkip::make(std::move(game)).value();
      games.push_back(TimeLimit::make(EpisodicLife::make(std::move(skipping)).value(), 3).value());
    }
    SameStepReset env(ConcatEnv::make(std::move(games)).value());
    Steps step(env);
    const int before = (at - 1) / 4;  // whole steps of four frames
    for (int i = 0; i < before; ++i) EXPECT_EQ(step(1).reward, (std::vector<double>{4, 4}));
    inside[1]->fault_at = at;
    StepBuffers& last = step(1);
    EXPECT_EQ(last.reward, (std::vector<double>{4, 0})) << at;
    EXPECT_EQ(last.is_reset, (Bytes{0, 1}));
    EXPECT_EQ(last.terminated, Bytes(2, 0));
    ASSERT_EQ(env.faults().size(), 1u);
    EXPECT_EQ(env.faults()[0].env, 1u);
    EXPECT_EQ(env.faults()[0].length, at - 1);
    EXPECT_TRUE(env.ends().env.empty());
    const Bytes shown = step.shown();
    EXPECT_EQ(Bytes(shown.begin() + 2, shown.end()), (Bytes{0, 102})) << "no frame of the old game";
    EXPECT_EQ(env.lives()[1], 3);
    inside[1]->fault_at = 0;
    std::vector<std::uint32_t> ended;
    for (int i = 0; i < 3; ++i) {  // the new game has a time of its own
      EXPECT_EQ(step(1).is_reset, Bytes(2, 0));
      EXPECT_TRUE(env.faults().empty());
      ended.insert(ended.end(), env.ends().env.begin(), env.ends().env.end());
      EXPECT_EQ(std::ranges::count(ended, 1u), i < 2 ? 0 : 1) << at;
    }
    EXPECT_EQ(env.ends().lengths.back(), 3);
  }
}

TEST(ImageTest, OtherPicturesAreRefused) {
  EXPECT_FALSE(Grayscale::make(std::make_unique<Lives>(1)).ok());
  EXPECT_FALSE(Resize::make(std::make_unique<Lives>(1), {.height = 1, .width = 1}).ok());
  EXPECT_FALSE(Grayscale::make(cartpoles(1, {}, AutoReset::kDisabled)).ok());
}

}  // namespace
}  // namespace rl
