// BE-1, BE-4, BE-6, EVR-1, EVR-2: what every environment that training sees promises, and the names.
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/sync_vector_env.h"

namespace rl {
namespace {

std::string failure(const std::function<void()>& what) {
  try {
    what();
  } catch (const troupe::InvalidArgumentError& error) { return error.what(); }
  return {};
}

/// Plays n environments with actions that depend on the environment and the step alone.
class Play {
 public:
  Play(std::string_view id, std::size_t n, AutoReset mode)
      : env_(make_batch_env(id, {.num_envs = n, .auto_reset = mode}).value()), last_(*env_), actions_(space(), n) {}

  void reset(std::uint64_t seed, std::size_t first) {
    std::vector<std::uint64_t> seeds(env_->size());
    std::iota(seeds.begin(), seeds.end(), seed + first);
    env_->reset(seeds);
    first_ = first;
  }
  void step() {
    for (std::size_t i = 0; i < env_->size(); ++i) {
      const std::size_t turn = (first_ + i) * 7 + t_ / 3;
      if (const Discrete* choice = std::get_if<Discrete>(&space()))
        actions_.as<std::int64_t>()[i] = static_cast<std::int64_t>(turn % static_cast<std::size_t>(choice->n));
      else actions_.as<float>()[i] = static_cast<float>(std::sin(static_cast<double>(turn)));
    }
    env_->step(actions_.view(), last_.out());
    ++t_;
  }
  std::vector<float> obs(std::size_t i) const {
    const ConstRows row = last_.obs.view().row(i);
    if (row.dtype() == DType::kBool) return {row.as<bool>().begin(), row.as<bool>().end()};
    return {row.as<float>().begin(), row.as<float>().end()};
  }
  const StepBuffers& last() const { return last_; }
  BatchEnv& env() { return *env_; }
  const Space& space() const { return env_->specs().action_space; }

 private:
  std::unique_ptr<BatchEnv> env_;
  StepBuffers last_;
  OwnedRows actions_;
  std::size_t first_ = 0, t_ = 0;
};

TEST(BatchEnvTest, BE1_WhatOneDoesDependsNeitherOnHowManyThereAreNorOnItsPlace) {
  for (const std::string& id : registered_envs()) {
    for (AutoReset mode : {AutoReset::kSameStep, AutoReset::kNextStep}) {
      SCOPED_TRACE(id);
      Play all(id, 9, mode), one(id, 1, mode);
      all.reset(40, 0);
      one.reset(40, 5);
      for (int t = 0; t < 600; ++t) {
        all.step();
        one.step();
        ASSERT_EQ(all.obs(5), one.obs(0)) << t;
        ASSERT_EQ(all.last().reward[5], one.last().reward[0]);
        ASSERT_EQ(all.last().terminated[5], one.last().terminated[0]);
        ASSERT_EQ(all.last().truncated[5], one.last().truncated[0]);
        ASSERT_EQ(all.last().is_reset[5], one.last().is_reset[0]);
      }
    }
  }
}

TEST(BatchEnvTest, BE4_WhoseEndIsNotResetIsNotStepped) {
  Play play("CartPole-v1", 2, AutoReset::kDisabled);
  play.reset(1, 0);
  while (play.env().ends().env.empty()) play.step();
  const std::uint32_t ended = play.env().ends().env[0];
  EXPECT_EQ(play.env().ends().final_obs.rows(), 0u);
  EXPECT_NE(failure([&] { play.step(); }).find("has ended"), std::string::npos);
  for (std::uint32_t env : {0u, 1u}) play.env().reset_one(env);
  EXPECT_EQ(failure([&] { play.step(); }), "");
  EXPECT_LT(std::abs(play.obs(ended)[0]), 0.1f) << "a new episode";
}

TEST(BatchEnvTest, BE6_AnActionThatIsNoneIsRefusedByName) {
  for (std::string_view id : {"CartPole-v1", "Acrobot-v1", "MinAtar/Breakout-v1"}) {
    const auto env = make_batch_env(id, {.num_envs = 3}).value();
    StepBuffers out(*env);
    env->reset(std::vector<std::uint64_t>{1, 2, 3});
    for (std::int64_t wrong : {-1, 3}) {
      const std::vector<std::int64_t> actions{0, 1, wrong};
      const std::string said = failure([&] { env->step(ConstRows(std::span(actions), 1), out.out()); });
      EXPECT_NE(said.find("environment 2 of " + std::string(id)), std::string::npos) << said;
      EXPECT_NE(said.find(std::to_string(wrong)), std::string::npos) << said;
    }
    const std::vector<float> floats{0, 1, 0};
    EXPECT_NE(failure([&] { env->step(ConstRows(std::span(floats), 1), out.out()); }), "") << "another type";
    EXPECT_NE(failure([&] { env->reset(std::vector<std::uint64_t>{1}); }), "") << "a seed for each";
  }
}

TEST(BatchEnvTest, SpacesAreGymnasiums) {
  const auto specs = [](const char* id) { return make_batch_env(id, {}).value()->specs(); };
  const EnvSpecs cartpole = specs("CartPole-v1");
  const Box& box = std::get<Box>(cartpole.observation_space);
  EXPECT_FLOAT_EQ(static_cast<float>(box.high[0]), 4.8f);
  EXPECT_TRUE(std::isinf(box.high[1]) && std::isinf(box.low[3]));
  EXPECT_FLOAT_EQ(static_cast<float>(box.low[2]), -0.41887903f);
  EXPECT_EQ(cartpole.action_space, Space(Discrete{.n = 2}));
  EXPECT_EQ(cartpole.max_episode_steps, 500);
  EXPECT_EQ(cartpole.reward_threshold, 475.0);
  EXPECT_EQ(specs("Acrobot-v1").action_space, Space(Discrete{.n = 3}));
  EXPECT_EQ(elements_of(specs("Acrobot-v1").observation_space), 6u);
  const Box torque = std::get<Box>(specs("Pendulum-v1").action_space);
  EXPECT_EQ(torque.high, std::vector<double>{2});
  EXPECT_EQ(torque.shape, std::vector<std::size_t>{1});
  EXPECT_EQ(specs("Pendulum-v1").reward_threshold, std::nullopt);
  for (const std::string& id : registered_envs()) {
    EXPECT_TRUE(check_space(specs(id.c_str()).observation_space).ok()) << id;
    EXPECT_TRUE(check_space(specs(id.c_str()).action_space).ok()) << id;
  }
}

TEST(EnvRegistryTest, EVR1_ANameIsRegisteredOnceAndAPrefixGetsTheRest) {
  static std::string rest;  // the registration outlives this test
  const EnvFactory factory = [](std::string_view name, const BatchEnvOptions& options) {
    rest = name;
    return make_batch_env("CartPole-v1", options);
  };
  ASSERT_TRUE(register_env("again:", factory).ok());
  const auto env = make_batch_env("again:Maze:v3", {.num_envs = 4});
  ASSERT_TRUE(env.ok());
  EXPECT_EQ(rest, "Maze:v3");
  EXPECT_EQ((*env)->size(), 4u);
  EXPECT_EQ(register_env("again:", factory).error().code(), troupe::ErrorCode::kInvalidArgument);
  EXPECT_EQ(register_env("CartPole-v1", factory).error().code(), troupe::ErrorCode::kInvalidArgument);
  EXPECT_EQ(register_env("", factory).error().code(), troupe::ErrorCode::kInvalidArgument);
}

TEST(EnvRegistryTest, EVR2_AnUnknownNameGetsTheNearestOne) {
  const auto made = make_batch_env("cartpole-v0", {});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), troupe::ErrorCode::kNotFound);
  const std::string said = made.error().what();
  EXPECT_NE(said.find("is \"CartPole-v1\" meant"), std::string::npos) << said;
  EXPECT_NE(said.find("Acrobot-v1"), std::string::npos) << said;
}

TEST(EnvRegistryTest, ArgumentsThatNobodyKnowsAreRefused) {
  const auto made = make_batch_env("CartPole-v1", {.kwargs = {{"gravity", 1.0}}});
  ASSERT_FALSE(made.ok());
  EXPECT_NE(std::string(made.error().what()).find("gravity"), std::string::npos);
}

}  // namespace
}  // namespace rl
