// BE-7, SVE-1, FIN-1, FIN-2: episodes that an environment's own error, or a fault on purpose, breaks off.
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/envs/sync_vector_env.h"
#include "apps/rl/envs/wrappers/fault_injector.h"
#include "apps/rl/envs/wrappers/frame_stack.h"
#include "apps/rl/envs/wrappers/normalize.h"

namespace rl {
namespace {

/// CartPole whose step number `bad_step` of each episode throws; 0: none does.
class Throwing final : public Env {
 public:
  explicit Throwing(int bad_step) : cartpole_(make_env("CartPole-v1").value()), bad_step_(bad_step) {}
  const EnvSpec& spec() const override { return cartpole_->spec(); }
  void reset(Generator& generator) override {
    cartpole_->reset(generator);
    steps_ = 0;
  }
  StepOutcome step(Action action) override {
    if (++steps_ == bad_step_) throw std::runtime_error("the simulator diverged");
    return cartpole_->step(action);
  }
  void observe(std::span<float> obs) const override { cartpole_->observe(obs); }
  void set_state(std::span<const double> state, StateOrigin origin) override { cartpole_->set_state(state, origin); }
  std::span<const double> state() const override { return cartpole_->state(); }

 private:
  std::unique_ptr<Env> cartpole_;
  int bad_step_, steps_ = 0;
};

std::unique_ptr<SyncVectorEnv> with_throwing(std::vector<int> bad_steps, AutoReset mode = AutoReset::kSameStep) {
  std::vector<std::unique_ptr<Env>> envs;
  for (int bad : bad_steps) envs.push_back(std::make_unique<Throwing>(bad));
  return SyncVectorEnv::make(std::move(envs), {.auto_reset = mode}).value();
}

std::vector<std::uint64_t> seeds_of(std::size_t n, std::uint64_t first) {
  std::vector<std::uint64_t> seeds(n);
  std::iota(seeds.begin(), seeds.end(), first);
  return seeds;
}

std::vector<std::int64_t> pushes(std::size_t n, std::size_t t) {
  std::vector<std::int64_t> actions(n);
  for (std::size_t i = 0; i < n; ++i) actions[i] = static_cast<std::int64_t>((t + i) / 2 % 2);
  return actions;
}

void step(BatchEnv& env, std::size_t t, StepBuffers& into) {
  const std::vector<std::int64_t> actions = pushes(env.size(), t);
  env.step(ConstRows(std::span(actions), 1), into.out());
}

TEST(FaultTest, SVE1_AnEnvironmentThatThrowsBeginsAnewAndIsNoReturn) {
  for (AutoReset mode : {AutoReset::kSameStep, AutoReset::kNextStep, AutoReset::kDisabled}) {
    const auto env = with_throwing({0, 4}, mode);
    StepBuffers last(*env);
    env->reset(seeds_of(2, 1));
    for (std::size_t t = 0; t < 3; ++t) {
      step(*env, t, last);
      EXPECT_TRUE(env->faults().empty());
    }
    step(*env, 3, last);
    ASSERT_EQ(env->faults().size(), 1u);
    const Fault& fault = env->faults()[0];
    EXPECT_EQ(fault.env, 1u);
    EXPECT_EQ(fault.kind, FaultKind::kThrew);
    EXPECT_EQ(fault.length, 3);
    EXPECT_EQ(fault.partial_return, 3.0);
    EXPECT_EQ(fault.what, "the simulator diverged");
    EXPECT_TRUE(env->ends().env.empty());
    EXPECT_EQ(last.is_reset, (std::vector<std::uint8_t>{0, 1}));
    EXPECT_EQ(last.reward, (std::vector<double>{1, 0}));
    EXPECT_EQ(last.terminated, (std::vector<std::uint8_t>{0, 0}));
    EXPECT_EQ(last.truncated, (std::vector<std::uint8_t>{0, 0}));
    EXPECT_LE(std::abs(last.obs.as<float>()[4]), 0.05f);
    step(*env, 4, last);
    EXPECT_TRUE(env->faults().empty());
    EXPECT_EQ(last.reward[1], 1.0) << "its next episode is under way";
  }
}

TEST(FaultTest, SVE1_OneThatThrowsInItsFirstStepEndsTraining) {
  const auto env = with_throwing({0, 1});
  StepBuffers last(*env);
  env->reset(seeds_of(2, 1));
  EXPECT_THROW(step(*env, 0, last), std::runtime_error);
}

TEST(FaultTest, BE7_WrappersTakeAFaultedRowForANewEpisode) {
  auto stacked = FrameStack::make(with_throwing({2}), 2).value();
  StepBuffers two(*stacked);
  stacked->reset(seeds_of(1, 1));
  step(*stacked, 0, two);
  EXPECT_NE(std::memcmp(two.obs.as<float>().data(), two.obs.as<float>().data() + 4, 16), 0);
  step(*stacked, 1, two);
  ASSERT_EQ(stacked->faults().size(), 1u) << "a wrapper shows what is inside";
  EXPECT_EQ(std::memcmp(two.obs.as<float>().data(), two.obs.as<float>().data() + 4, 16), 0) << "two of the first";

  NormalizeReward rewards(with_throwing({2}), {.gamma = 1});
  StepBuffers out(rewards);
  rewards.reset(seeds_of(1, 1));
  double most = 0;
  for (std::size_t t = 0; t < 40; ++t) {
    step(rewards, t, out);
    most = std::max(most, rewards.moments().now().mean()[0]);
  }
  EXPECT_LE(most, 1.0) << "NRM-3: the return of one step never became that of twenty";
}

FaultDeeds counting(int& exits, int& stalls) {
  return {.exit = [&exits] { ++exits; }, .stall = [&stalls](std::chrono::milliseconds) { ++stalls; }};
}

/// The steps at which each environment threw.
std::vector<std::vector<std::size_t>> thrown(std::size_t n, std::uint64_t seed, int& exits, int& stalls) {
  const FaultRates rates{.threw = 0.02, .exited = 0.01, .stalled = 0.03};
  auto inner = SyncVectorEnv::make("CartPole-v1", {.num_envs = n}).value();
  const auto env = FaultInjector::make(std::move(inner), rates, counting(exits, stalls)).value();
  StepBuffers last(*env);
  env->reset(seeds_of(n, seed));
  std::vector<std::vector<std::size_t>> at(n);
  for (std::size_t t = 0; t < 1000; ++t) {
    step(*env, t, last);
    for (const Fault& fault : env->faults()) at[fault.env].push_back(t);
  }
  return at;
}

TEST(FaultTest, FIN1_FaultsDependOnTheSeedAlone) {
  int exits = 0, stalls = 0, exits_again = 0, stalls_again = 0, others = 0;
  const auto all = thrown(8, 40, exits, stalls);
  EXPECT_EQ(all, thrown(8, 40, exits_again, stalls_again));
  EXPECT_EQ(exits, exits_again);
  EXPECT_EQ(stalls, stalls_again);
  EXPECT_EQ(all[5], thrown(1, 45, others, others)[0]) << "whatever is beside it";
  // 8,000 draws: five deviations either way.
  EXPECT_NEAR(exits, 80, 45);
  EXPECT_NEAR(stalls, 240, 77);
  std::size_t throws = 0;
  for (const auto& one : all) throws += one.size();
  EXPECT_NEAR(static_cast<double>(throws), 160, 63);
}

TEST(FaultTest, FIN2_AStepThatThrewIsTakenBack) {
  for (AutoReset mode : {AutoReset::kSameStep, AutoReset::kNextStep}) {
    auto inner = SyncVectorEnv::make("CartPole-v1", {.num_envs = 4, .auto_reset = mode}).value();
    const auto env = FaultInjector::make(std::move(inner), {.threw = 0.2}).value();
    StepBuffers last(*env);
    env->reset(seeds_of(4, 3));
    std::vector<std::int64_t> length(4);
    std::size_t faults = 0, returns = 0;
    for (std::size_t t = 0; t < 500; ++t) {
      step(*env, 0, last);  // always the same pushes: episodes of about ten steps
      for (const Fault& fault : env->faults()) {
        EXPECT_EQ(fault.length, length[fault.env]);
        EXPECT_EQ(fault.partial_return, static_cast<double>(length[fault.env]));
        EXPECT_EQ(last.is_reset[fault.env], 1);
        EXPECT_EQ(last.reward[fault.env], 0.0);
        EXPECT_EQ(last.terminated[fault.env], 0);
        EXPECT_LE(std::abs(last.obs.as<float>()[4 * fault.env]), 0.05f);
        ++faults;
      }
      for (std::size_t i = 0; i < 4; ++i) length[i] = last.is_reset[i] != 0 ? 0 : length[i] + 1;
      const EpisodeEnds ends = env->ends();
      EXPECT_EQ(ends.final_obs.rows(), mode == AutoReset::kSameStep ? ends.env.size() : 0);
      for (std::size_t j = 0; j < ends.env.size(); ++j) {
        EXPECT_EQ(last.terminated[ends.env[j]], 1);
        EXPECT_EQ(ends.returns[j], static_cast<double>(std::exchange(length[ends.env[j]], 0)));
        if (mode == AutoReset::kSameStep) {
          EXPECT_GT(std::abs(ends.final_obs.row(j).as<float>()[2]), 0.2f) << "a pole that fell";
        }
        ++returns;
      }
    }
    EXPECT_GT(faults, 100u);
    EXPECT_GT(returns, 20u);
  }
}

TEST(FaultTest, PrefixesNameTheKindsAndTheRestIsTheEnvironments) {
  const auto made = make_batch_env("throw:stall:CartPole-v1", {.num_envs = 2, .kwargs = {{"p", 0}, {"seconds", 0.5}}});
  ASSERT_TRUE(made.ok()) << made.error().what();
  EXPECT_EQ((*made)->specs().id, "CartPole-v1");
  using troupe::ErrorCode;
  const auto code = [](std::string_view id, boost::json::object kwargs) {
    return make_batch_env(id, {.kwargs = std::move(kwargs)}).error().code();
  };
  EXPECT_EQ(code("throw:CartPole-v7", {}), ErrorCode::kNotFound);
  EXPECT_EQ(code("throw:CartPole-v1", {{"p", 1.5}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("throw:stall:CartPole-v1", {{"p", 0.6}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("stall:CartPole-v1", {{"seconds", -1}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("stall:CartPole-v1", {{"p", "often"}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("stall:CartPole-v1", {{"gravity", 3}}), ErrorCode::kInvalidArgument);
}

TEST(FaultDeathTest, AnExitIsTheProcessesEnd) {
  const auto env = make_batch_env("exit:CartPole-v1", {.kwargs = {{"p", 1}}}).value();
  env->reset(seeds_of(1, 1));
  StepBuffers last(*env);
  EXPECT_EXIT(step(*env, 0, last), testing::ExitedWithCode(70), "");
}

}  // namespace
}  // namespace rl
