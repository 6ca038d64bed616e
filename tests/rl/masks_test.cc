// BE-9, ROL-7, PLR-3, MCH-1 to MCH-3: what an environment masks is never done, and whoever does not heed masks refuses
// the environment.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/config/run_config.h"
#include "apps/rl/config/runner_options.h"
#include "apps/rl/envs/wrappers/concat_env.h"
#include "apps/rl/envs/wrappers/same_step_reset.h"
#include "apps/rl/learners/ppo_learner.h"
#include "apps/rl/policies/any_policy.h"
#include "apps/rl/algorithms/masked_choice.h"
#include "apps/rl/training/evaluate.h"
#include "apps/rl/training/rollout.h"
#include "tests/rl/gates_env.h"

namespace {

using namespace rl;

void have_gates() {
  static const bool once = (gates::register_all(), true);
  (void)once;
}

RunConfig config_on(const std::string& algo, const std::string& env) {
  have_gates();
  RunConfig out = defaults_of(algo).value();
  out.env.id = env;
  out.num_envs = 8, out.horizon = 32;
  out.network.hidden = {16};
  return out;
}

template <class Code> std::string message(Code&& code) {
  try {
    code();
  } catch (const troupe::InvalidArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST(Masks, BE9_SlotsShowWhatIsAllowedNowAndWhatWasAtTheEnd) {
  have_gates();
  const auto env = make_batch_env("Gates-v0", {.num_envs = 3}).value();
  EXPECT_TRUE(env->specs().masks_actions);
  const std::vector<std::uint64_t> seeds{1, 2, 3};
  env->reset(seeds);
  StepBuffers step(*env);
  OwnedRows actions(env->specs().action_space, 3);
  std::size_t ends = 0;
  for (int i = 0; i < 200; ++i) {
    const std::vector<std::uint8_t> mask(env->action_mask().begin(), env->action_mask().end());
    ASSERT_EQ(mask.size(), 12u);
    for (std::size_t row = 0; row < 3; ++row)
      actions.as<std::int64_t>()[row] =
          static_cast<std::int64_t>(std::find(mask.begin() + static_cast<std::ptrdiff_t>(4 * row), mask.end(), 1) -
                                    mask.begin()) - static_cast<std::int64_t>(4 * row);
    env->step(std::as_const(actions).view(), step.out());
    EXPECT_EQ(env->ends().final_mask.size(), 4 * env->ends().env.size());
    ends += env->ends().env.size();
  }
  EXPECT_GT(ends, 20u);
  EXPECT_TRUE(make_batch_env("CartPole-v1", {}).value()->action_mask().empty());
  EXPECT_FALSE(make_batch_env("CartPole-v1", {}).value()->specs().masks_actions);
}

TEST(Masks, BE9_WrappersKeepTheMasksOfTheEnd) {
  have_gates();
  const BatchEnvOptions one{.num_envs = 1, .auto_reset = AutoReset::kDisabled};
  std::vector<std::unique_ptr<BatchEnv>> parts;
  for (int i = 0; i < 2; ++i) parts.push_back(make_batch_env("Gates-v0", one).value());
  SameStepReset wrapped(ConcatEnv::make(std::move(parts)).value());
  const auto plain = make_batch_env("Gates-v0", {.num_envs = 2}).value();
  const std::vector<std::uint64_t> seeds{5, 6};
  wrapped.reset(seeds), plain->reset(seeds);
  StepBuffers step(wrapped);
  OwnedRows actions(plain->specs().action_space, 2);
  Generator generator(1);
  for (int i = 0; i < 100; ++i) {
    random_actions(plain->specs().action_space, generator, actions.view(), plain->action_mask());
    wrapped.step(std::as_const(actions).view(), step.out());
    plain->step(std::as_const(actions).view(), step.out());
    EXPECT_TRUE(std::ranges::equal(wrapped.action_mask(), plain->action_mask()));
    EXPECT_TRUE(std::ranges::equal(wrapped.ends().final_mask, plain->ends().final_mask));
  }
  parts.clear();
  parts.push_back(make_batch_env("Gates-v0", one).value());
  parts.push_back(std::make_unique<SameStepReset>(make_batch_env("Gates2-v0", one).value()));
  EXPECT_FALSE(ConcatEnv::make(std::move(parts)).ok());
}

TEST(Masks, MCH_TheBestAndAnyOfWhatIsAllowed) {
  const std::vector<float> values{3, 5, 5, 9};
  const auto best = [&](const std::vector<std::uint8_t>& mask) { return best_allowed<float>(values, mask); };
  EXPECT_EQ(best({1, 1, 1, 0}), 1u);
  EXPECT_EQ(best({1, 0, 1, 0}), 2u);
  EXPECT_EQ(best({}), 3u);
  EXPECT_THROW((void)best({0, 0, 0, 0}), troupe::InvalidArgumentError);
  Generator generator(3), twin(3);
  std::vector<int> drawn(4);
  const std::vector<std::uint8_t> mask{0, 1, 0, 1};
  for (int i = 0; i < 1000; ++i) ++drawn[static_cast<std::size_t>(draw_choice(4, mask, generator))];
  EXPECT_EQ(drawn[0] + drawn[2], 0);
  EXPECT_GT(drawn[1], 400);
  EXPECT_GT(drawn[3], 400);
  Generator other(3);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(draw_choice(4, {}, twin), static_cast<std::int64_t>(other.integers(4u)));
}

TEST(Masks, PLR3_RandomActionsAreAllowedOnesOfEachPlace) {
  OwnedRows actions(MultiDiscrete{.nvec = {2, 3}}, 1);
  Generator generator(1);
  const std::vector<std::uint8_t> mask{0, 1, 1, 0, 1};
  for (int i = 0; i < 100; ++i) {
    random_actions(MultiDiscrete{.nvec = {2, 3}}, generator, actions.view(), mask);
    EXPECT_EQ(actions.as<std::int64_t>()[0], 1);
    EXPECT_NE(actions.as<std::int64_t>()[1], 1);
  }
  OwnedRows numbers(Box{.shape = {1}, .low = {0}, .high = {1}}, 1);
  EXPECT_THROW(random_actions(Box{.shape = {1}, .low = {0}, .high = {1}}, generator, numbers.view(), mask),
               troupe::InvalidArgumentError);
}

/// Rounds of PPO in one process; the mean of the last episodes.
double learned(const std::string& env, int rounds) {
  RunConfig config = config_on("ppo", env);
  config.ppo.learning_rate = config.ppo.learning_rate_last = 3e-3;
  const Task task = task_of(config).value();
  const auto& policy = std::get<PolicySpec>(task.policy);
  RolloutWorker worker(rollout_options(config, policy, 0, 0));
  const auto learner = make_learner(config, task.policy);
  OwnedSamples batch(worker.columns(), worker.samples());
  double sum = 0, count = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto ended = worker.collect(learner->params(), on_policy_out(batch.layout(), batch.memory()));
    EXPECT_TRUE(batch.view().has("mask"));
    const SampleView view = batch.view();
    learner->update(std::span(&view, 1));
    if (round < rounds - 5) continue;
    for (const EpisodeEnd& end : ended) sum += static_cast<double>(end.episode_return), ++count;
  }
  const Policy made{.env = config.env, .spec = task.policy,
                    .moments = task.moments, .params = {learner->params().begin(), learner->params().end()}};
  const Evaluation greedy = evaluate(made, {.episodes = 20}).value();
  EXPECT_GT(greedy.mean, 0.95 * 17) << "of some 17 steps, each of reward 1";
  return sum / count;
}

TEST(Masks, ROL7_PpoNeverTakesWhatIsForbiddenAndLearnsTheBestOfTheRest) {
  // An episode has some 17 steps; any allowed action gives some 9 of them.
  EXPECT_GT(learned("Gates-v0", 80), 14);
  EXPECT_GT(learned("Gates2-v0", 80), 14);
}

TEST(Masks, ROL7_ABatchSaysWhatWasAllowedAndWhatWasDoneIsAmongIt) {
  const RunConfig config = config_on("ppo", "Gates-v0");
  const Task task = task_of(config).value();
  RolloutWorker worker(rollout_options(config, std::get<PolicySpec>(task.policy), 0, 0));
  OwnedSamples batch(worker.columns(), worker.samples());
  const auto learner = make_learner(config, task.policy);
  (void)worker.collect(learner->params(), on_policy_out(batch.layout(), batch.memory()));
  const auto mask = batch.view().column("mask").as<std::uint8_t>();
  const auto action = batch.view().column("action").as<std::int64_t>();
  std::size_t alone = 0;
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    const auto of_row = mask.subspan(4 * row, 4);
    EXPECT_EQ(of_row[static_cast<std::size_t>(action[row])], 1);
    if (std::ranges::count(of_row, 1) != 1) continue;
    ++alone;
    EXPECT_EQ(batch.view().column("log_prob").as<float>()[row], 0.0f);
  }
  EXPECT_GT(alone, 10u);
  EXPECT_FALSE(on_policy_view(OwnedSamples(on_policy_columns(task.specs.observation_space, task.specs.action_space), 1)
                                  .view()).mask.rows() != 0);
}

TEST(Masks, AMaskThatAllowsNothingNamesEnvironmentAndStep) {
  RunConfig config = config_on("ppo", "Closed-v0");
  const Task task = task_of(config).value();
  RolloutWorker worker(rollout_options(config, std::get<PolicySpec>(task.policy), 0, 0));
  OwnedSamples batch(worker.columns(), worker.samples());
  const auto learner = make_learner(config, task.policy);
  const std::string said = message(
      [&] { (void)worker.collect(learner->params(), on_policy_out(batch.layout(), batch.memory())); });
  EXPECT_NE(said.find("environment 0 of Closed-v0 allows no action at step 7"), std::string::npos) << said;
}

/// CartPole with a mask that its specs do not mention, or numbers that are masked.
class Undeclared final : public EnvWrapper {
 public:
  Undeclared(std::unique_ptr<BatchEnv> inner, bool says_so) : EnvWrapper(std::move(inner)), mask_(2 * size(), 1) {
    changed_specs().masks_actions = says_so;
  }
  [[nodiscard]] std::span<const std::uint8_t> action_mask() const override { return mask_; }

 private:
  std::vector<std::uint8_t> mask_;
};

TEST(Masks, WhatDoesNotHeedAMaskRefusesTheEnvironmentByName) {
  const RunConfig config = config_on("ppo", "Gates-v0");
  const auto refused = MadeEnv::make(config.env, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("Gates-v0 masks actions"), std::string::npos);
  static const bool once = [] {
    register_env("Undeclared-v0", [](std::string_view, const BatchEnvOptions& options) {
      return troupe::Result<std::unique_ptr<BatchEnv>>(
          std::make_unique<Undeclared>(make_batch_env("CartPole-v1", options).value(), false));
    }).value();
    register_env("Masked-numbers-v0", [](std::string_view, const BatchEnvOptions& options) {
      return troupe::Result<std::unique_ptr<BatchEnv>>(
          std::make_unique<Undeclared>(make_batch_env("Pendulum-v1", options).value(), true));
    }).value();
    return true;
  }();
  (void)once;
  const RunConfig undeclared = config_on("ppo", "Undeclared-v0");
  const Task task = task_of(undeclared).value();
  RolloutWorker worker(rollout_options(undeclared, std::get<PolicySpec>(task.policy), 0, 0));
  OwnedSamples batch(worker.columns(), worker.samples());
  const auto learner = make_learner(undeclared, task.policy);
  const std::string said = message(
      [&] { (void)worker.collect(learner->params(), on_policy_out(batch.layout(), batch.memory())); });
  EXPECT_NE(said.find("by its specs it has 0"), std::string::npos) << said;
  for (const char* algo : {"ppo", "sac"}) {
    const auto numbers = task_of(config_on(algo, "Masked-numbers-v0"));
    ASSERT_FALSE(numbers.ok());
    EXPECT_NE(numbers.error().message().find(std::string(algo) + " cannot heed that: only choices can be masked"),
              std::string::npos)
        << numbers.error().message();
  }
}

}  // namespace
