// BE-9, ROL-7, FRR-6, TRR-8, TRB-5, PLR-3, MCH-1 to MCH-3: what an environment masks is never done, learners know what
// was allowed, and whoever does not heed masks refuses the environment.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/algorithms/dqn.h"
#include "apps/rl/algorithms/masked_choice.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/config/runner_options.h"
#include "apps/rl/envs/wrappers/concat_env.h"
#include "apps/rl/envs/wrappers/same_step_reset.h"
#include "apps/rl/learners/actor_critic_gradient.h"
#include "apps/rl/policies/any_policy.h"
#include "apps/rl/replay/replay_buffer.h"
#include "apps/rl/samples/perturbations.h"
#include "apps/rl/training/collect.h"
#include "apps/rl/training/evaluate.h"
#include "apps/rl/training/fragment_runner.h"
#include "apps/rl/training/perturbation_runner.h"
#include "apps/rl/training/rollout.h"
#include "apps/rl/training/transition_runner.h"
#include "tests/rl/gates_env.h"
#include "tests/base/temporary_folder.h"

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

Policy policy_of(const RunConfig& config, const Task& task, const Learner& learner) {
  return {.env = config.env, .spec = task.policy, .moments = task.moments,
          .params = {learner.params().begin(), learner.params().end()}};
}

/// The best is 1 a step of some 17; any allowed action gives some 9 of them.
double greedy_return(const RunConfig& config, const Task& task, const Learner& learner) {
  return evaluate(policy_of(config, task, learner), {.episodes = 20}).value().mean;
}

/// Rounds of PPO or A2C in one process; the mean of the last episodes.
double learned(const RunConfig& config, int rounds) {
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
  EXPECT_GT(greedy_return(config, task, *learner), 15.5);
  return sum / count;
}

TEST(Masks, ROL7_PpoNeverTakesWhatIsForbiddenAndLearnsTheBestOfTheRest) {
  for (const char* env : {"Gates-v0", "Gates2-v0"}) {
    RunConfig config = config_on("ppo", env);
    config.ppo.learning_rate = config.ppo.learning_rate_last = 3e-3;
    EXPECT_GT(learned(config, 80), 14);
  }
}

TEST(Masks, ROL7_A2cToo) {
  RunConfig config = config_on("a2c", "Gates-v0");
  config.a2c.learning_rate = config.a2c.learning_rate_last = 1e-2;
  EXPECT_GT(learned(config, 800), 13);
}

TEST(Masks, FRR6_ImpalaToo) {
  for (const std::int64_t target_interval : {0, 4}) {
    RunConfig config = config_on("impala", "Gates-v0");
    config.impala.learning_rate = config.impala.learning_rate_last = 5e-3;
    if (target_interval != 0) config.impala.clip = 0.2, config.impala.target_interval = target_interval;
    const Task task = task_of(config).value();
    FragmentRunner runner(fragment_runner_options(config, std::get<PolicySpec>(task.policy), 0, 0));
    const auto learner = make_learner(config, task.policy);
    for (int round = 0; round < 250; ++round) {
      (void)runner.play(learner->params());
      OwnedSamples batch(runner.columns(), runner.rows());
      runner.write(batch.layout(), batch.memory());
      ASSERT_EQ(fragment_view(batch.view()).mask.rows(), batch.rows());
      const SampleView view = batch.view();
      const UpdateReport report = learner->update(std::span(&view, 1));
      const auto kl = std::ranges::find(report.metrics, std::string("kl"), &Metric::name);
      ASSERT_NEAR(kl->value, 0, 1e-6) << "the policy that learns is the one that played";
    }
    EXPECT_GT(greedy_return(config, task, *learner), 15.5) << target_interval;
  }
}

TEST(Masks, DQ2_TargetsTakeTheBestOfWhatIsAllowed) {
  const NStepReturn sum{.steps_used = 1, .discounted_reward = 1, .bootstrap_discount = 0.5};
  const std::vector<double> online{9, 1, 2}, target{30, 10, 20};
  const std::vector<std::uint8_t> mask{0, 1, 1}, other{0, 1, 0};
  EXPECT_EQ(dqn_target(sum, target), 16);
  EXPECT_EQ(dqn_target(sum, target, mask), 11);
  EXPECT_EQ(double_dqn_target(sum, online, target, mask), 11);
  EXPECT_EQ(double_dqn_target(sum, online, target, other), 6);
}

TEST(Masks, DQ2_ALearnersTargetsTakeTheBestOfWhatIsAllowed) {
  const RunConfig config = config_on("dqn", "Gates-v0");
  const Task task = task_of(config).value();
  const auto target = [&](const std::vector<std::uint8_t>& mask) {  // of the first update, of one row
    OwnedSamples batch(transition_columns(task.specs.observation_space, task.specs.action_space, 4), 1);
    batch.column("next_obs").as<float>()[1] = 1, batch.column("discount").as<float>()[0] = 1;
    std::ranges::copy(mask, batch.column(kNextMaskColumn).as<std::uint8_t>().begin());
    const SampleView view = batch.view();
    const UpdateReport report = make_learner(config, task.policy)->update(std::span(&view, 1));
    return std::ranges::find(report.metrics, std::string("target"), &Metric::name)->value;
  };
  const std::vector<double> each{target({1, 0, 0, 0}), target({0, 1, 0, 0}), target({0, 0, 1, 0}),
                                 target({0, 0, 0, 1})};
  EXPECT_LT(std::ranges::min(each), std::ranges::max(each));
  EXPECT_NEAR(target({1, 1, 1, 1}), std::ranges::max(each), 1e-6);
  EXPECT_NEAR(target({1, 1, 0, 0}), std::max(each[0], each[1]), 1e-6);
  EXPECT_NEAR(target({0, 0, 1, 1}), std::max(each[2], each[3]), 1e-6);
}

TEST(Masks, TRR8_DqnToo) {
  for (const bool double_q : {false, true}) {
    RunConfig config = config_on("dqn", "Gates-v0");
    config.dqn.double_q = double_q, config.replay.n_step = double_q ? 3 : 1;
    config.replay.gamma = 0.5, config.dqn.target_interval = 50;
    config.dqn.learning_rate = config.dqn.learning_rate_last = 3e-3;
    config.total_steps = 20'000;
    const Task task = task_of(config).value();
    TransitionRunner runner(transition_runner_options(config, task.policy, 0, 0));
    ReplayBuffer replay(replay_options(config, task.policy, mask_width_of(task.specs)));
    const auto learner = make_learner(config, task.policy);
    Generator generator(1);
    OwnedSamples drawn(replay.sample_columns(), 64);
    for (std::int64_t done = 0; done < 16'000; done += 64) {
      (void)runner.play(learner->params(), {.steps = 8, .done = done, .together = 8});
      replay.add(runner.take().view());
      if (done < 1000) continue;
      for (int i = 0; i < 8; ++i) {
        replay.sample({}, generator, drawn);
        const SampleView view = drawn.view();
        (void)learner->update(std::span(&view, 1));
      }
    }
    EXPECT_GT(greedy_return(config, task, *learner), 15.5) << double_q;
  }
}

TEST(Masks, TRB5_ATransitionHasTheMaskOfItsNextObservation) {
  const Space seen = Box{.shape = {1}, .low = {0}, .high = {9}}, two = Discrete{.n = 2};
  const TransitionOptions options{.observation_space = seen, .action_space = two, .num_envs = 3, .mask_width = 2};
  TransitionBuilder builder(options);
  OwnedRows obs(seen, 3), action(two, 3), next(seen, 3), last(seen, 2);
  const std::vector<double> reward(3);
  const std::vector<std::uint8_t> terminated{0, 1, 0}, truncated{0, 0, 1}, is_reset(3);
  const std::vector<std::uint32_t> env{1, 2};
  const std::vector<double> returns(2);
  const std::vector<std::int64_t> lengths(2);
  const std::vector<std::uint8_t> next_mask{1, 0, 1, 0, 1, 0}, final_mask{0, 0, 0, 1}, closed(4), fewer(4, 1);
  PlayedStep step{.obs = std::as_const(obs).view(), .action = std::as_const(action).view(), .reward = reward,
                  .terminated = terminated, .truncated = truncated, .is_reset = is_reset,
                  .next_obs = std::as_const(next).view(),
                  .ends = {env, returns, lengths, std::as_const(last).view(), final_mask}, .next_mask = next_mask};
  builder.add(step);
  TransitionBuilder other(options);
  other.restore(builder.save());
  const OwnedSamples out = other.take();
  const auto mask = transition_view(out.view(), seen, two).next_mask;
  EXPECT_EQ(std::vector<std::uint8_t>(mask.begin(), mask.end()), (std::vector<std::uint8_t>{1, 0, 1, 1, 0, 1}));
  step.ends.final_mask = {};
  EXPECT_THROW(builder.add(step), troupe::InvalidArgumentError);
  step.ends.final_mask = final_mask, step.next_mask = fewer;
  EXPECT_THROW(builder.add(step), troupe::InvalidArgumentError);
  step.ends.final_mask = closed, step.next_mask = next_mask;
  EXPECT_THROW(builder.add(step), troupe::InvalidArgumentError);
}

TEST(Masks, TRR8_ARunnerGoesOnAsItWouldHaveAndAFaultKeepsItsMask) {
  RunConfig config = config_on("dqn", "throw:Gates-v0");
  config.env.kwargs = R"({"p": 0.05})";
  const Task task = task_of(config).value();
  TransitionRunner runner(transition_runner_options(config, task.policy, 0, 0));
  const auto learner = make_learner(config, task.policy);
  (void)runner.play(learner->params(), {.steps = 300, .done = 0, .together = 8});
  EXPECT_GT(runner.take_faults()[0], 50);
  const OwnedSamples out = runner.take();
  const auto mask = out.view().column(kNextMaskColumn).as<std::uint8_t>();
  for (std::size_t row = 0; row < out.rows(); ++row)
    EXPECT_TRUE(std::ranges::any_of(mask.subspan(4 * row, 4), [](std::uint8_t one) { return one != 0; })) << row;
}

TEST(Masks, ArsPlaysWhatIsAllowed) {
  const RunConfig config = config_on("ars", "Gates-v0");
  const Task task = task_of(config).value();
  PerturbationRunner runner(perturbation_runner_options(config, std::get<PolicySpec>(task.policy)));
  const auto learner = make_learner(config, task.policy);
  for (std::int64_t update = 0; update < 60; ++update) {
    const std::vector<ArsPair> pairs =
        runner.play(learner->params(), {.update = update, .first = 0,
                                        .count = static_cast<std::uint32_t>(config.ars.directions)});
    OwnedSamples batch(perturbation_columns(), pairs.size());
    write_pairs(pairs, batch.layout(), batch.memory());
    const SampleView view = batch.view();
    (void)learner->update(std::span(&view, 1));
  }
  EXPECT_GT(greedy_return(config, task, *learner), 13);
}

/// A policy that takes the highest choice that is allowed.
Policy best_policy(const RunConfig& config, const Task& task) {
  const auto learner = make_learner(config, task.policy);
  Policy out = policy_of(config, task, *learner);
  std::ranges::fill(out.params, 0.0f);
  for (const PolicyPart& part : parts_of(out.spec))
    if (part.name.starts_with("policy/") && part.name.ends_with("/bias") && part.count == 4)
      for (std::size_t i = 0; i < 4; ++i) out.params[part.begin + i] = static_cast<float>(i);
  return out;
}

TEST(Masks, DEM1_DemonstrationsHaveTheirMasksAndBcLearnsFromWhatWasAllowed) {
  const RunConfig config = config_on("bc", "Gates-v0");
  const Task task = task_of(config).value();
  const Demonstrations played = collect(best_policy(config, task), {.episodes = 100}).value();
  const troupe::test::TemporaryFolder folder;
  const auto file = folder / "demonstrations.bin";
  save_demonstrations(file, played).value();
  Demonstrations read = load_demonstrations(file).value();
  ASSERT_TRUE(std::ranges::equal(read.steps.view().column("mask").as<std::uint8_t>(),
                                 played.steps.view().column("mask").as<std::uint8_t>()));
  const auto learner = make_learner(config, task.policy);
  const SampleView all = read.steps.view();
  double loss = 0;
  for (int i = 0; i < 300; ++i) loss = learner->update(std::span(&all, 1)).metrics.front().value;
  // Without masks the same choice has many answers, and the loss stays above the entropy of what was taken, about 1.1.
  EXPECT_LT(loss, 0.2);
  EXPECT_GT(greedy_return(config, task, *learner), 15.5);
  const std::int64_t done = read.steps.view().column("action").as<std::int64_t>()[5];
  read.steps.column("mask").as<std::uint8_t>()[20 + static_cast<std::size_t>(done)] = 0;
  EXPECT_EQ(check_demonstrations(read).error().message(),
            "the action of step 5 is " + std::to_string(done) + ", which its mask forbids");
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
  // What the update says of these actions is what was said when they were drawn; without the mask it is not.
  const OnPolicyView all = on_policy_view(batch.view());
  ActorCriticGradient<float> gradient(std::get<PolicySpec>(task.policy), troupe::kernels::best_isa());
  const auto now = gradient.evaluate(learner->params(), all.obs, all.action, all.mask);
  for (std::size_t row = 0; row < batch.rows(); ++row) EXPECT_NEAR(now.log_prob[row], all.log_prob[row], 1e-5);
  const SampleView view = batch.view();
  for (const char* algo : {"ppo", "a2c"}) {
    RunConfig still = config_on(algo, "Gates-v0");
    still.ppo.epochs = 1, still.ppo.minibatch = batch.rows();
    const auto other = make_learner(still, task.policy);
    const UpdateReport report = other->update(std::span(&view, 1));
    const auto entropy = std::ranges::find(report.metrics, std::string("entropy"), &Metric::name);
    EXPECT_NEAR(entropy->value, std::accumulate(now.entropy.begin(), now.entropy.end(), 0.0) /
                                    static_cast<double>(batch.rows()), 1e-5) << algo;
  }
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
