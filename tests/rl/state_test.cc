// BE-8, STV-1, STV-2, ROL-5, TRR-7: what is saved goes on as if nothing had been.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "apps/rl/config/runner_options.h"
#include "apps/rl/envs/acrobot.h"
#include "apps/rl/envs/batch_of.h"
#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/minatar/minatar_vector_env.h"
#include "apps/rl/envs/sync_vector_env.h"
#include "apps/rl/envs/wrappers/time_limit.h"
#include "apps/rl/policies/any_policy.h"

namespace {

using namespace rl;

constexpr std::size_t kEnvs = 3;

/// All that a batch shows in a step, as bytes.
class Played {
 public:
  explicit Played(BatchEnv& env) : env_(env), out_(env), actions_(env.specs().action_space, env.size()) {}

  std::string step(Generator& generator) {
    random_actions(env_.specs().action_space, generator, actions_.view());
    if (is_disabled_)
      for (std::size_t i = 0; i < env_.size(); ++i)
        if (out_.terminated[i] != 0 || out_.truncated[i] != 0) env_.reset_one(i);
    env_.step(std::as_const(actions_).view(), out_.out());
    std::string seen;
    add(out_.obs.view().data(), out_.obs.view().bytes(), seen);
    add(out_.reward.data(), out_.reward.size() * sizeof(double), seen);
    for (const auto* flags : {&out_.terminated, &out_.truncated, &out_.is_reset})
      add(flags->data(), flags->size(), seen);
    const EpisodeEnds ends = env_.ends();
    add(ends.env.data(), ends.env.size_bytes(), seen), add(ends.returns.data(), ends.returns.size_bytes(), seen);
    add(ends.lengths.data(), ends.lengths.size_bytes(), seen);
    if (ends.final_obs.rows() > 0) add(ends.final_obs.data(), ends.final_obs.bytes(), seen);
    for (const Fault& fault : env_.faults()) add(&fault.length, sizeof fault.length, seen);
    return seen;
  }
  void disabled() { is_disabled_ = true; }
  /// Where a kDisabled batch stands: which episodes have ended.
  void copy_flags(const Played& other) {
    out_.terminated = other.out_.terminated, out_.truncated = other.out_.truncated;
  }

 private:
  static void add(const void* bytes, std::size_t size, std::string& to) {
    if (size != 0) to.append(static_cast<const char*>(bytes), size);
  }
  BatchEnv& env_;
  StepBuffers out_;
  OwnedRows actions_;
  bool is_disabled_ = false;
};

/// `make` gives batches that are the same. Returns how many bytes were compared.
template <class Make>
void goes_on_as_it_was(const std::string& what, Make make, bool disabled = false) {
  const std::unique_ptr<BatchEnv> one = make(), two = make();
  const std::vector<std::uint64_t> seeds{5, 6, 7}, others{8, 9, 10};
  one->reset(seeds), two->reset(others);  // two has another past
  Played first(*one), second(*two);
  if (disabled) first.disabled(), second.disabled();
  Generator generator(1), another(2);
  for (int i = 0; i < 137; ++i) (void)first.step(generator);
  for (int i = 0; i < 11; ++i) (void)second.step(another);
  const std::optional<StateDict> state = save_state(*one);
  ASSERT_TRUE(state.has_value()) << what << " cannot be saved";
  ASSERT_TRUE(restore_state(*two, *state)) << what;
  EXPECT_EQ(save_state(*two), state) << what << " is not as it was";
  second.copy_flags(first);
  Generator same = generator;
  for (int i = 0; i < 700; ++i) ASSERT_EQ(first.step(generator), second.step(same)) << what << ", step " << i;
}

TEST(State, BE8_EnvironmentsGoOnAsTheyWere) {
  std::vector<std::string> ours;
  for (const auto& ids : {env_ids(), minatar_env_ids()}) ours.insert(ours.end(), ids.begin(), ids.end());
  ASSERT_EQ(ours.size(), 9u);
  for (const std::string& id : ours)
    for (const AutoReset mode : {AutoReset::kSameStep, AutoReset::kNextStep, AutoReset::kDisabled}) {
      const BatchEnvOptions options{.num_envs = kEnvs, .auto_reset = mode, .max_episode_steps = 60};
      goes_on_as_it_was(id, [&] { return make_batch_env(id, options).value(); }, mode == AutoReset::kDisabled);
    }
  for (const std::string_view id : env_ids())  // the ones that are stepped one after the other
    goes_on_as_it_was(std::string(id), [&] {
      return std::unique_ptr<BatchEnv>(SyncVectorEnv::make(id, {.num_envs = kEnvs, .max_episode_steps = 60}).value());
    });
  goes_on_as_it_was("vectors", [&] {
    return make_batch_env("CartPole-v1", {.num_envs = kEnvs, .isa = troupe::kernels::best_isa()}).value();
  });
}

/// What MadeEnv puts around an environment, as one.
class Around final : public BatchEnv {
 public:
  explicit Around(const EnvSetup& setup) : made_(MadeEnv::make(setup, {.num_envs = kEnvs}).value()) {}
  const EnvSpecs& specs() const override { return made_.specs(); }
  std::size_t size() const override { return kEnvs; }
  void reset(std::span<const std::uint64_t> seeds) override { made_.env().reset(seeds); }
  void reset_one(std::size_t env) override { made_.env().reset_one(env); }
  void observe(Rows obs) const override { const_cast<MadeEnv&>(made_).env().observe(obs); }
  void step(ConstRows actions, const StepOut& out) override { made_.env().step(actions, out); }
  EpisodeEnds ends() const override { return const_cast<MadeEnv&>(made_).env().ends(); }
  std::span<const Fault> faults() const override { return const_cast<MadeEnv&>(made_).env().faults(); }
  bool visit(StateVisitor& visitor) override { return made_.visit(visitor); }

 private:
  MadeEnv made_;
};

TEST(State, BE8_WrappersGoOnAsTheyWere) {
  const std::vector<EnvSetup> setups{
      {.id = "CartPole-v1", .normalize_observation = true, .normalize_reward = true},
      {.id = "CartPole-v1", .frame_stack = 3},
      {.id = "MountainCar-v0", .max_episode_steps = 50, .normalize_observation = true, .frame_stack = 2},
      {.id = "MinAtar/Breakout-v1", .clip_reward = 0.5},
      {.id = "throw:CartPole-v1", .kwargs = R"({"p": 0.05})", .normalize_reward = true}};
  for (const EnvSetup& setup : setups)
    goes_on_as_it_was(setup.id, [&] { return std::unique_ptr<BatchEnv>(std::make_unique<Around>(setup)); });
  goes_on_as_it_was(
      "TimeLimit",
      [&] {
        auto inner = make_batch_env("CartPole-v1", {.num_envs = kEnvs, .auto_reset = AutoReset::kDisabled}).value();
        return std::unique_ptr<BatchEnv>(TimeLimit::make(std::move(inner), 9).value());
      },
      true);
}

/// A user's, which says nothing of its state.
struct Forgetful {
  void seed(std::uint64_t) {}
  void begin() {}
  void check(ConstRows, std::size_t) const {}
  StepOutcome step(ConstRows, std::size_t) { return {.reward = 0, .terminated = false}; }
  void observe(Rows row) const { row.as<float>()[0] = 0; }
};

TEST(State, WhatCannotBeSavedSaysSo) {
  const EnvSpecs specs{.id = "Forgetful-v0",
                       .observation_space = Box{.shape = {1}, .low = {0}, .high = {1}},
                       .action_space = Discrete{.n = 2},
                       .max_episode_steps = {},
                       .reward_threshold = {}};
  const auto env = batch_of(Forgetful(), specs, {.num_envs = 2});
  EXPECT_FALSE(save_state(*env).has_value());
}

TEST(State, STV1_AnotherStateChangesNothing) {
  const auto make = [](const char* id, std::size_t n) {
    auto env = make_batch_env(id, {.num_envs = n}).value();
    env->reset(std::vector<std::uint64_t>(n, 3));
    return env;
  };
  const auto env = make("CartPole-v1", 3);
  const StateDict before = save_state(*env).value();
  for (const auto& other : {make("CartPole-v1", 9), make("Acrobot-v1", 3), make("MinAtar/Breakout-v1", 3)})
    EXPECT_THROW((void)restore_state(*env, *save_state(*other)), troupe::SerializationError);
  StateDict half;  // what comes first, without the rest
  half.put("env", before.get<std::uint8_t>("env"));
  half.put("state", std::vector<double>(before.get<double>("state").size()));
  EXPECT_THROW((void)restore_state(*env, half), troupe::SerializationError);
  const StateDict after = save_state(*env).value();
  for (const auto& [name, values] : before.entries()) EXPECT_TRUE(after.entries().at(name) == values) << name;
  EXPECT_EQ(after.entries().size(), before.entries().size());
}

// A checkpoint may be anybody's. Before, these were places outside of a board or of an array.
TEST(State, STV1_WhatIsOutOfRangeIsRefused) {
  const auto refused = [](auto& part, const std::string& name, auto value) {
    StateDict state = save_state(part).value();
    auto values = state.get<decltype(value)>(name);
    values.at(0) = value;
    state.put(name, values);
    EXPECT_THROW((void)restore_state(part, state), troupe::SerializationError) << name << " " << value;
  };
  const auto game = [](const char* id) {
    auto env = make_batch_env(id, {.num_envs = 1}).value();
    env->reset(std::vector<std::uint64_t>{3});
    return env;
  };
  const auto breakout = game("MinAtar/Breakout-v1"), invaders = game("MinAtar/SpaceInvaders-v1");
  for (const std::int64_t place : {std::int64_t{-1}, std::int64_t{10}, std::int64_t{1} << 32}) {
    for (const char* name : {"0/ball_y", "0/ball_x", "0/last_y", "0/last_x", "0/paddle"})
      refused(*breakout, name, place);
    refused(*invaders, "0/cannon", place);
  }
  refused(*breakout, "0/down", std::int64_t{2}), refused(*breakout, "0/bricks", std::int64_t{1024});
  refused(*invaders, "0/move_timer", std::int64_t{-1}), refused(*invaders, "0/move_timer", std::int64_t{13});
  refused(*game("CartPole-v1"), "ended_before", std::uint8_t{2});
  RunConfig config = defaults_of("sac").value();
  config.network.hidden = {8}, config.env.id = "Pendulum-v1", config.sac.noise = "colored";
  TransitionRunner runner(transition_runner_options(config, task_of(config).value().policy, 0, 0));
  refused(runner, "place", std::uint64_t{1} << 40);
}

TEST(State, AnyAngleOfAnAcrobotTurnsBack) {
  for (const double number : {1e9, 1e300, std::numeric_limits<double>::infinity()}) {
    Acrobot env;
    env.set_state(std::vector<double>{number, -number, number, -number}, StateOrigin::kAfterStep);
    (void)env.step({.value = 1});
    EXPECT_FALSE(std::abs(env.state()[0]) > 3.15) << number;
  }
}

TEST(State, ROL5_ARolloutWorkerPlaysOn) {
  RunConfig config = defaults_of("ppo").value();
  config.num_envs = 4, config.horizon = 33;
  config.env.normalize_observation = true;
  const PolicySpec policy = std::get<PolicySpec>(task_of(config).value().policy);
  RolloutWorker one(rollout_options(config, policy, 0, 0)), two(rollout_options(config, policy, 1, 999));
  const auto learner = make_learner(config, policy);
  const auto play = [&](RolloutWorker& worker) {
    OwnedSamples batch(worker.columns(), worker.samples());
    (void)worker.collect(learner->params(), on_policy_out(batch.layout(), batch.memory()));
    return std::string(reinterpret_cast<const char*>(batch.memory()), batch.layout().bytes());
  };
  for (int i = 0; i < 5; ++i) (void)play(one);
  (void)play(two);
  const StateDict state = save_state(one).value();
  ASSERT_TRUE(restore_state(two, state));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(play(one), play(two));
}

TEST(State, TRR7_ATransitionRunnerPlaysOn) {
  for (const char* noise : {"white", "colored", "ornstein-uhlenbeck"}) {
    RunConfig config = defaults_of("sac").value();
    config.num_envs = 3, config.replay.n_step = 4, config.sac.noise = noise;
    config.network.hidden = {8};
    const AnyPolicySpec policy = task_of(config).value().policy;
    TransitionRunner one(transition_runner_options(config, policy, 0, 0)),
        two(transition_runner_options(config, policy, 1, 999));
    const auto learner = make_learner(config, policy);
    const auto play = [&](TransitionRunner& runner, std::int64_t done) {
      (void)runner.play(learner->params(), {.steps = 61, .done = done, .together = 3});
      const OwnedSamples batch = runner.take();
      std::string out;
      for (const Column& column : batch.layout().columns()) {
        const ConstRows rows = batch.view().column(column.name);
        out.append(reinterpret_cast<const char*>(rows.data()), rows.bytes());
      }
      return out;
    };
    for (std::int64_t i = 0; i < 5; ++i) (void)play(one, 183 * i);
    (void)play(two, 0);
    ASSERT_TRUE(restore_state(two, *save_state(one)));
    for (std::int64_t i = 5; i < 9; ++i) EXPECT_EQ(play(one, 183 * i), play(two, 183 * i)) << noise;
  }
}

}  // namespace
