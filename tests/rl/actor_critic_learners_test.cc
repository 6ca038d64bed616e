// ACG-1, A2L-1, A2L-2, LVT-1 to LVT-3, FRG-1, FRR-1 to FRR-5, FOP-1, and LRN-1 to LRN-3 and LRN-5 of A2C,
// IMPALA and PPO.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "apps/rl/algorithms/a2c_loss.h"
#include "apps/rl/algorithms/linked_vtrace.h"
#include "apps/rl/config/algorithms/a2c.h"
#include "apps/rl/config/algorithms/impala.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/config/runner_options.h"
#include "apps/rl/samples/fragments.h"
#include "apps/rl/samples/on_policy.h"
#include "apps/rl/training/fragment_runner.h"

namespace {

using namespace rl;

std::vector<double> random_numbers(std::size_t count, Generator& random, double low = -1, double high = 1) {
  std::vector<double> out(count);
  for (double& one : out) one = random.uniform(low, high);
  return out;
}

TEST(A2cLoss, A2L1_DerivativesAreThoseOfTheLoss) {
  Generator random(1);
  constexpr std::size_t kRows = 7;
  const auto advantage = random_numbers(kRows, random), returns = random_numbers(kRows, random);
  auto log_prob = random_numbers(kRows, random), entropy = random_numbers(kRows, random),
       value = random_numbers(kRows, random);
  for (const bool normalize : {false, true}) {
    const A2cLossOptions options{
        .value_coefficient = 0.7, .entropy_coefficient = 0.3, .normalize_advantage = normalize};
    std::vector<double> d_log_prob(kRows), d_entropy(kRows), d_value(kRows), scratch(kRows);
    const auto loss = [&] {
      return a2c_loss<double>(advantage, returns, log_prob, entropy, value, options, scratch, scratch, scratch)
          .total_loss;
    };
    (void)a2c_loss<double>(advantage, returns, log_prob, entropy, value, options, d_log_prob, d_entropy, d_value);
    const auto check = [&](std::vector<double>& numbers, const std::vector<double>& derivatives) {
      for (std::size_t i = 0; i < kRows; ++i) {
        constexpr double kStep = 1e-6;
        const double kept = numbers[i];
        numbers[i] = kept + kStep;
        const double above = loss();
        numbers[i] = kept - kStep;
        const double below = loss();
        numbers[i] = kept;
        EXPECT_NEAR(derivatives[i], (above - below) / (2 * kStep), 1e-8);
      }
    };
    check(log_prob, d_log_prob), check(entropy, d_entropy), check(value, d_value);
  }
}

TEST(A2cLoss, A2L2_NormalizedAdvantagesOfKnownNumbers) {
  const std::vector<double> advantage{1, 2, 3}, zero(3, 0.0), log_prob{0, 0, 0};
  std::vector<double> d_log_prob(3), other(3);
  const A2cLossOptions options{.normalize_advantage = true};
  (void)a2c_loss<double>(advantage, zero, log_prob, zero, zero, options, d_log_prob, other, other);
  EXPECT_NEAR(d_log_prob[0], 1.0 / 3, 1e-7);  // mean 2, unbiased deviation 1
  EXPECT_NEAR(d_log_prob[1], 0, 1e-12);
  EXPECT_NEAR(d_log_prob[2], -1.0 / 3, 1e-7);
}

TEST(ActorCriticGradient, GradientsMatchFiniteDifferences) {
  for (const char* env : {"CartPole-v1", "Pendulum-v1"}) {
    RunConfig config;
    config.env.id = env;
    config.network.hidden = {5};
    const auto spec = std::get<PolicySpec>(task_of(config).value().policy);
    Generator random(2);
    const std::vector<float> first = initial_parameters(spec.networks, random);
    std::vector<double> params(first.begin(), first.end());
    constexpr std::size_t kRows = 4;
    OwnedRows obs(spec.observation_space, kRows), actions(spec.action_space, kRows);
    for (float& one : obs.as<float>()) one = static_cast<float>(random.uniform(-1, 1));
    if (std::holds_alternative<Discrete>(spec.action_space)) actions.as<std::int64_t>()[1] = 1;
    else for (float& one : actions.as<float>()) one = static_cast<float>(random.uniform(-1, 1));
    const auto a = random_numbers(kRows, random), b = random_numbers(kRows, random), c = random_numbers(kRows, random);
    ActorCriticGradient<double> gradient(spec, troupe::kernels::Isa::kReference);
    const auto sum = [&] {
      const auto now = gradient.evaluate(params, std::as_const(obs).view(), std::as_const(actions).view());
      double out = 0;
      for (std::size_t i = 0; i < kRows; ++i)
        out += a[i] * now.log_prob[i] + b[i] * now.entropy[i] + c[i] * now.value[i];
      return out;
    };
    (void)sum();
    const auto d = gradient.derivatives();
    std::ranges::copy(a, d.log_prob.begin()), std::ranges::copy(b, d.entropy.begin()),
        std::ranges::copy(c, d.value.begin());
    const auto grads_span = gradient.backward(params);
    const std::vector<double> grads(grads_span.begin(), grads_span.end());
    for (std::size_t i = 0; i < params.size(); i += 3) {
      constexpr double kStep = 1e-6;
      const double kept = params[i];
      params[i] = kept + kStep;
      const double above = sum();
      params[i] = kept - kStep;
      const double below = sum();
      params[i] = kept;
      EXPECT_NEAR(grads[i], (above - below) / (2 * kStep), 1e-6) << env << " " << i;
    }
  }
}

TEST(FlatOptimizer, RmspropIsTensorFlowsAndABadGradientIsNotApplied) {
  FlatOptimizer optimizer({.kind = OptimizerKind::kRmsprop, .epsilon = 0.1, .decay = 0.9, .max_grad_norm = 1e9}, 1);
  std::vector<float> params{1};
  const std::vector<float> grads{2};
  EXPECT_NEAR(optimizer.step(params, grads, 0.5), 2, 1e-6);
  // Squares begin at 1: 0.9 + 0.1 * 4 = 1.3; 1 - 0.5 * 2 / sqrt(1.3 + 0.1).
  EXPECT_NEAR(params[0], 1 - 1 / std::sqrt(1.4), 1e-6);
  const StateDict before = optimizer.save();
  const std::vector<float> kept = params, bad{std::numeric_limits<float>::quiet_NaN()};
  EXPECT_FALSE(std::isfinite(optimizer.step(params, bad, 0.5)));
  EXPECT_EQ(params, kept);
  EXPECT_EQ(optimizer.save(), before);
  FlatOptimizer adam({.kind = OptimizerKind::kAdam}, 1);
  EXPECT_THROW(adam.restore(before), troupe::SerializationError) << "RMSprop has no first moment";
}

/// Random numbers of [steps][envs] transitions, some of which terminate.
struct Played {
  explicit Played(std::size_t steps, std::size_t envs) {
    Generator random(3);
    const std::size_t n = steps * envs;
    behaviour = random_numbers(n + envs, random), target = random_numbers(n + envs, random);
    reward = random_numbers(n + envs, random), value = random_numbers(n + envs, random);
    discount.assign(n + envs, 0.9), next.assign(n + envs, -1);
    for (std::size_t i = 0; i < n; ++i) {
      next[i] = static_cast<std::int64_t>(i + envs);
      if (random.random() < 0.2) discount[i] = 0, next[i] = static_cast<std::int64_t>(i);
    }
  }
  [[nodiscard]] LinkedVtraceInput<double> linked() const { return {behaviour, target, discount, reward, value, next}; }
  std::vector<double> behaviour, target, discount, reward, value;
  std::vector<std::int64_t> next;
};

TEST(LinkedVtrace, LVT1_LVT2_OnWholeFragmentsItIsVtrace) {
  constexpr std::size_t kSteps = 6, kEnvs = 3, kCount = kSteps * kEnvs;
  const Played played(kSteps, kEnvs);
  const VtraceOptions options{.rho_bar = 1.2, .c_bar = 0.8, .pg_rho_bar = 1.1, .lambda = 0.95};
  const auto first = [](const std::vector<double>& all) { return std::span(all).first(kCount); };
  std::vector<double> vs(kCount), advantage(kCount), linked_vs(kCount + kEnvs), linked_advantage(kCount + kEnvs);
  vtrace<double>({.steps = kSteps, .envs = kEnvs, .behaviour_log_prob = first(played.behaviour),
                  .target_log_prob = first(played.target), .discount = first(played.discount),
                  .reward = first(played.reward), .value = first(played.value),
                  .bootstrap_value = std::span(played.value).last(kEnvs)},
                 options, vs, advantage);
  linked_vtrace<double>(played.linked(), options, linked_vs, linked_advantage);
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(linked_vs[i], vs[i], 1e-12) << i;
    EXPECT_NEAR(linked_advantage[i], advantage[i], 1e-12) << i;
  }
  for (std::size_t i = kCount; i < kCount + kEnvs; ++i) {
    EXPECT_EQ(linked_vs[i], played.value[i]);
    EXPECT_EQ(linked_advantage[i], 0);
  }
}

TEST(LinkedVtrace, ATruncationBootstrapsFromItsOwnRowAndCarriesNothingOver) {
  // Row 0 is followed by row 2 (the true last observation), row 1 begins another episode.
  const std::vector<double> zero(4, 0.0), discount(4, 0.5), reward{1, 10, 0, 0}, value{0, 0, 4, 8};
  const std::vector<std::int64_t> next{2, 3, -1, -1};
  std::vector<double> vs(4), advantage(4);
  linked_vtrace<double>({zero, zero, discount, reward, value, next}, {}, vs, advantage);
  EXPECT_DOUBLE_EQ(vs[0], 1 + 0.5 * 4);
  EXPECT_DOUBLE_EQ(vs[1], 10 + 0.5 * 8);
}

TEST(LinkedVtrace, LVT3_ARowThatCannotFollowIsRefused) {
  for (const std::int64_t bad : {-2, 0, 4, 100}) {
    Played played(2, 2);
    played.discount[1] = 0.9;
    played.next[1] = bad;
    std::vector<double> vs(6), advantage(6, 7.0);
    if (bad == 4) continue;  // that is a later row
    EXPECT_THROW(linked_vtrace<double>(played.linked(), {}, vs, advantage), troupe::InvalidArgumentError) << bad;
    EXPECT_EQ(advantage, std::vector<double>(6, 7.0));
  }
  Played itself(2, 2);
  itself.next[1] = 1, itself.discount[1] = 0.9;
  std::vector<double> vs(6), advantage(6);
  EXPECT_THROW(linked_vtrace<double>(itself.linked(), {}, vs, advantage), troupe::InvalidArgumentError);
}

RunConfig impala() {
  RunConfig out = defaults_of("impala").value();
  out.num_envs = 4, out.horizon = 50;
  out.network.hidden = {16};
  return out;
}

FragmentRunner runner_for(const RunConfig& config, std::uint32_t life = 0) {
  FragmentRunnerOptions options =
      fragment_runner_options(config, std::get<PolicySpec>(task_of(config).value().policy), 0, 0);
  options.life = life;
  return FragmentRunner(options);
}

OwnedSamples written(const FragmentRunner& runner) {
  OwnedSamples out(runner.columns(), runner.rows());
  runner.write(out.layout(), out.memory());
  return out;
}

std::vector<std::byte> bytes_of(const OwnedSamples& samples) {
  const SampleView view = samples.view();
  return {view.memory, view.memory + view.layout.bytes()};
}

std::vector<float> params_of(const RunConfig& config) {
  const auto learner = make_learner(config, task_of(config).value().policy);
  return {learner->params().begin(), learner->params().end()};
}

TEST(FragmentRunner, FRR1_FRR5_TheSameAgainAndAnotherLifeIsAnother) {
  const RunConfig config = impala();
  const auto params = params_of(config);
  const auto played = [&](std::uint32_t life) {
    FragmentRunner runner = runner_for(config, life);
    (void)runner.play(params);
    (void)runner.play(params);
    return bytes_of(written(runner));
  };
  EXPECT_EQ(played(0), played(0));
  EXPECT_NE(played(0), played(1));
}

TEST(FragmentRunner, FRR2_RowsFollowEachOtherAndATruncationHasItsOwnLastRow) {
  RunConfig config = impala();
  config.env.max_episode_steps = 12;
  FragmentRunner runner = runner_for(config);
  const auto params = params_of(config);
  const std::size_t episodes = runner.play(params).size();
  const OwnedSamples samples = written(runner);
  const FragmentView view = fragment_view(samples.view());
  constexpr std::size_t kCount = 200;
  std::size_t terminated = 0, truncated = 0;
  for (std::size_t row = 0; row < kCount; ++row) {
    const auto next = view.next[row];
    if (view.discount[row] == 0) {
      ++terminated;
      EXPECT_EQ(next, static_cast<std::int64_t>(row));
    } else if (next >= static_cast<std::int64_t>(kCount + 4)) {
      ++truncated;
    } else {
      EXPECT_EQ(next, static_cast<std::int64_t>(row + 4));
      // A step of CartPole moves the cart by 0.02 times its speed.
      const auto before = view.obs.row(row).as<float>(), after = view.obs.row(row + 4).as<float>();
      EXPECT_NEAR(after[0], before[0] + 0.02f * before[1], 1e-6f);
    }
    EXPECT_EQ(view.reward[row], 1.0f);
    EXPECT_LT(view.log_prob[row], 0.0f);
  }
  EXPECT_EQ(terminated + truncated, episodes);
  EXPECT_GT(truncated, 3u);
  EXPECT_EQ(samples.rows(), kCount + 4 + truncated);
  for (std::size_t row = kCount; row < samples.rows(); ++row) EXPECT_EQ(view.next[row], -1);
}

TEST(FragmentRunner, FRR4_TheRowOfAFaultIsNoTransition) {
  RunConfig config = impala();
  config.env = {.id = "throw:CartPole-v1", .kwargs = R"({"p": 0.05})"};
  FragmentRunner runner = runner_for(config);
  (void)runner.play(params_of(config));
  const FaultCounts faults = runner.take_faults();
  ASSERT_GT(faults[0], 0);
  const OwnedSamples samples = written(runner);
  const auto next = fragment_view(samples.view()).next;
  EXPECT_EQ(std::ranges::count(next.first(200), -1), faults[0]);
}

// Speeds are 0 where an episode begins and nowhere else; nothing ends before the limit.
RunConfig faulty_mountain_car(const char* algo, const char* prefix) {
  RunConfig config = defaults_of(algo).value();
  config.env = {.id = "throw:MountainCar-v0", .kwargs = R"({"p": 0.02})", .max_episode_steps = 12};
  config.num_envs = 4, config.horizon = 50;
  config.network.hidden = {16};
  config.fault_prefix = prefix;
  return config;
}
bool begins(ConstRows obs, std::size_t row) { return obs.row(row).as<float>()[1] == 0.0f; }

TEST(FragmentRunner, FRR4_APrefixThatIsDroppedHasNoTransitions) {
  const RunConfig config = faulty_mountain_car("impala", "drop");
  FragmentRunner kept = runner_for(faulty_mountain_car("impala", "bootstrap")), dropping = runner_for(config);
  const auto params = params_of(config);
  std::size_t dropped = 0;
  for (int turn = 0; turn < 2; ++turn) {
    (void)kept.play(params), (void)dropping.play(params);
    const OwnedSamples all = written(kept), fewer = written(dropping);
    const FragmentView before = fragment_view(all.view()), after = fragment_view(fewer.view());
    ASSERT_TRUE(std::ranges::equal(before.log_prob, after.log_prob)) << "both play the same";
    std::vector<bool> wanted(200, false);
    for (std::size_t row = 0; row < 200; ++row) {
      if (before.next[row] >= 0) continue;
      wanted[row] = true;
      for (std::size_t i = row; !begins(before.obs, i) && i >= 4; i -= 4) wanted[i - 4] = true;
    }
    for (std::size_t row = 0; row < 200; ++row) {
      EXPECT_EQ(after.next[row], wanted[row] ? -1 : before.next[row]) << row;
      dropped += wanted[row] && before.next[row] >= 0 ? 1 : 0;
    }
  }
  EXPECT_GT(dropped, 10u);
  EXPECT_EQ(kept.take_faults(), dropping.take_faults()) << "they are counted either way";
}

TEST(RolloutWorker, ROL4_APrefixThatIsDroppedIsNotKept) {
  const auto worker_for = [](const RunConfig& config) {
    return RolloutWorker(rollout_options(config, std::get<PolicySpec>(task_of(config).value().policy), 0, 0));
  };
  const RunConfig config = faulty_mountain_car("ppo", "drop");
  RolloutWorker whole = worker_for(faulty_mountain_car("ppo", "bootstrap")), dropping = worker_for(config);
  const auto params = params_of(config);
  OwnedSamples all(whole.columns(), whole.samples()), same(whole.columns(), whole.samples());
  (void)whole.collect(params, on_policy_out(all.layout(), all.memory()));
  const std::size_t ended = dropping.collect(params, on_policy_out(same.layout(), same.memory())).size();
  EXPECT_EQ(bytes_of(all), bytes_of(same)) << "both play the same";
  EXPECT_FALSE(whole.kept().has_value());
  const auto kept = dropping.kept();
  ASSERT_TRUE(kept.has_value());
  const OnPolicyView view = on_policy_view(all.view());
  std::vector<std::uint32_t> wanted;
  std::vector<bool> dropped(view.rows(), false);
  for (std::size_t row = 0; row < view.rows(); ++row) {
    if (view.advantage[row] != 0.0f || view.returns[row] != view.value[row]) continue;  // a fault's
    dropped[row] = true;
    for (std::size_t i = row; !begins(view.obs, i) && i >= 4; i -= 4) dropped[i - 4] = true;
  }
  for (std::uint32_t row = 0; row < view.rows(); ++row)
    if (!dropped[row]) wanted.push_back(row);
  EXPECT_EQ(*kept, wanted);
  EXPECT_LT(wanted.size(), view.rows() - 10);
  EXPECT_GT(ended, 0u);
  OwnedSamples fewer(whole.columns(), kept->size());
  gather(all.view(), *kept, fewer.layout(), fewer.memory());
  EXPECT_EQ(on_policy_view(fewer.view()).value[3], view.value[wanted[3]]);
}

TEST(Fragments, FRG1_JoinedOnesPointIntoTheirOwnPart) {
  const RunConfig config = impala();
  FragmentRunner runner = runner_for(config);
  const auto params = params_of(config);
  (void)runner.play(params);
  const OwnedSamples one = written(runner);
  (void)runner.play(params);
  const OwnedSamples two = written(runner);
  const std::vector<SampleView> parts{one.view(), two.view()};
  const OwnedSamples joined = join_fragments(parts);
  const auto next = fragment_view(joined.view()).next;
  const auto of_two = fragment_view(two.view()).next;
  for (std::size_t i = 0; i < two.rows(); ++i)
    EXPECT_EQ(next[one.rows() + i], of_two[i] < 0 ? -1 : of_two[i] + static_cast<std::int64_t>(one.rows()));
}

OwnedSamples fragment_for(const RunConfig& config) {
  FragmentRunner runner = runner_for(config);
  (void)runner.play(params_of(config));
  return written(runner);
}

TEST(ImpalaLearner, LRN1_LRN2_SameBitsAgainAndAfterARestore) {
  for (const double clip : {0.0, 0.2}) {
    RunConfig config = impala();
    config.impala.clip = clip;
    const auto policy = task_of(config).value().policy;
    const OwnedSamples fragment = fragment_for(config);
    const std::vector<SampleView> batch{fragment.view()};
    const auto one = make_learner(config, policy), two = make_learner(config, policy);
    for (int i = 0; i < 3; ++i) one->update(batch);
    two->update(batch);
    RunConfig other = config;
    other.seed = 99;
    const auto resumed = make_learner(other, policy);
    resumed->restore(two->save());
    for (int i = 0; i < 2; ++i) two->update(batch), resumed->update(batch);
    EXPECT_TRUE(std::ranges::equal(one->params(), two->params()));
    EXPECT_TRUE(std::ranges::equal(one->params(), resumed->params()));
  }
}

TEST(ImpalaLearner, OnItsOwnFragmentsTheUpdateIsThatOfA2cWithFullReturns) {
  // Without truncation and with ratios of 1, V-trace's target is the n-step return and its advantage that less V.
  RunConfig config = impala();
  config.env.max_episode_steps = 0;
  config.horizon = 10;
  config.impala.entropy_coefficient = 0;
  config.impala.learning_rate = config.impala.learning_rate_last = 1e-3;
  const OwnedSamples fragment = fragment_for(config);
  const FragmentView view = fragment_view(fragment.view());
  const auto spec = std::get<PolicySpec>(task_of(config).value().policy);
  ActorCriticGradient<float> net(spec, troupe::kernels::best_isa());
  const auto params = params_of(config);
  const auto now = net.evaluate(params, view.obs, view.action);
  std::vector<float> returns(view.rows());
  for (std::size_t i = view.rows(); i-- > 0;) {
    if (view.next[i] < 0) returns[i] = now.value[i];
    else returns[i] = view.reward[i] + view.discount[i] * returns[static_cast<std::size_t>(view.next[i])];
  }
  OwnedSamples batch(on_policy_columns(spec.observation_space, spec.action_space), 40);
  const OnPolicyOut out = on_policy_out(batch.layout(), batch.memory());
  std::memcpy(out.obs.data(), view.obs.data(), out.obs.bytes());
  std::memcpy(out.action.data(), view.action.data(), out.action.bytes());
  for (std::size_t i = 0; i < 40; ++i) {
    out.returns[i] = returns[i], out.value[i] = now.value[i];
    out.advantage[i] = returns[i] - now.value[i];
  }
  RunConfig a2c = config;
  a2c.algo = "a2c";
  a2c.a2c = {.learning_rate = 1e-3, .learning_rate_last = 1e-3, .optimizer = "adam"};
  const auto by_a2c = make_learner(a2c, spec), by_impala = make_learner(config, spec);
  const std::vector<SampleView> on_policy{batch.view()}, fragments{fragment.view()};
  by_a2c->update(on_policy), by_impala->update(fragments);
  for (std::size_t i = 0; i < params.size(); ++i) EXPECT_NEAR(by_a2c->params()[i], by_impala->params()[i], 2e-5) << i;
}

template <class Change>
void expect_refused(const RunConfig& config, OwnedSamples batch, Change change) {
  const auto learner = make_learner(config, task_of(config).value().policy);
  const std::vector<float> before(learner->params().begin(), learner->params().end());
  const StateDict state = learner->save();
  change(batch);
  const std::vector<SampleView> views{batch.view()};
  EXPECT_THROW(learner->update(views), troupe::InvalidArgumentError);
  EXPECT_TRUE(std::ranges::equal(learner->params(), before));
  EXPECT_EQ(learner->save(), state);
}

TEST(ImpalaLearner, LRN3_WhatIsNotFiniteChangesNothing) {
  const RunConfig config = impala();
  expect_refused(config, fragment_for(config), [](OwnedSamples& batch) {
    batch.column("reward").as<float>()[0] = std::numeric_limits<float>::infinity();
  });
}

TEST(Learners, LRN5_WithoutATransitionNothingChanges) {
  for (const char* algo : {"ppo", "a2c", "impala"}) {
    const RunConfig config = algo == std::string("impala") ? impala() : defaults_of(algo).value();
    const auto policy = std::get<PolicySpec>(task_of(config).value().policy);
    OwnedSamples batch(on_policy_columns(policy.observation_space, policy.action_space), 0);
    if (config.algo == "impala") {
      batch = fragment_for(config);
      std::ranges::fill(batch.column("next").as<std::int64_t>(), -1);
    }
    const auto learner = make_learner(config, policy);
    const StateDict before = learner->save();
    const std::vector<SampleView> views{batch.view()};
    EXPECT_TRUE(learner->update(views).metrics.empty()) << algo;
    EXPECT_EQ(learner->save(), before) << algo;
  }
}

double policy_loss(const UpdateReport& report) {
  return std::ranges::find(report.metrics, "policy_loss", &Metric::name)->value;
}

RunConfig appo(std::int64_t target_interval) {
  RunConfig config = impala();
  config.impala.clip = 0.2, config.impala.target_interval = target_interval;
  return config;
}

TEST(ImpalaLearner, ATargetThatIsRenewedAlwaysGivesVtracesOwnGradient) {
  // old is pi before each step: the ratio is 1 (as long as mu / pi is at most 2) and V-trace corrects for pi.
  RunConfig plain = impala();
  const OwnedSamples fragment = fragment_for(plain);
  const std::vector<SampleView> batch{fragment.view()};
  const auto policy = task_of(plain).value().policy;
  const auto one = make_learner(plain, policy), other = make_learner(appo(1), policy);
  for (int i = 0; i < 5; ++i) one->update(batch), other->update(batch);
  for (std::size_t i = 0; i < one->params().size(); ++i) ASSERT_NEAR(one->params()[i], other->params()[i], 2e-5) << i;
}

TEST(ImpalaLearner, TheTargetIsRenewedEverySoManyUpdatesAndTheLossIsThatOfRllib) {
  const RunConfig config = appo(2);
  const auto policy = std::get<PolicySpec>(task_of(config).value().policy);
  const OwnedSamples fragment = fragment_for(config);
  const FragmentView view = fragment_view(fragment.view());
  const std::vector<SampleView> batch{fragment.view()};
  const auto learner = make_learner(config, policy);
  std::vector<std::vector<float>> params;  // before each update
  std::vector<double> losses;
  for (int i = 0; i < 6; ++i) {
    params.emplace_back(learner->params().begin(), learner->params().end());
    losses.push_back(policy_loss(learner->update(batch)));
  }
  ActorCriticGradient<float> net(policy, troupe::kernels::best_isa());
  const double transitions = static_cast<double>(
      std::ranges::count_if(view.next, [](std::int64_t next) { return next >= 0; }));
  for (std::size_t i = 0; i < 6; ++i) {
    const auto first = net.evaluate(params[i / 2 * 2], view.obs, view.action);
    const std::vector<float> old(first.log_prob.begin(), first.log_prob.end());
    const auto now = net.evaluate(params[i], view.obs, view.action);
    std::vector<float> vs(view.rows()), advantage(view.rows());
    linked_vtrace<float>({view.log_prob, old, view.discount, view.reward, now.value, view.next}, {}, vs, advantage);
    double loss = 0;
    for (std::size_t row = 0; row < view.rows(); ++row) {
      if (view.next[row] < 0) continue;
      const double ratio = std::min(std::exp(view.log_prob[row] - old[row]), 2.0f) *
                           std::exp(static_cast<double>(now.log_prob[row] - view.log_prob[row]));
      const double a = static_cast<double>(advantage[row]);
      loss -= std::min(ratio * a, std::clamp(ratio, 0.8, 1.2) * a) / transitions;
    }
    EXPECT_NEAR(losses[i], loss, 1e-5 * (1 + std::abs(loss))) << i;
  }
}

TEST(ImpalaLearner, LRN2_ATargetIsSavedAndWithoutAClipThereIsNone) {
  const auto policy = task_of(impala()).value().policy;
  const OwnedSamples fragment = fragment_for(impala());
  const std::vector<SampleView> batch{fragment.view()};
  const auto one = make_learner(appo(3), policy);
  for (int i = 0; i < 4; ++i) one->update(batch);
  RunConfig other = appo(3);
  other.seed = 99;
  const auto resumed = make_learner(other, policy);
  resumed->restore(one->save());
  EXPECT_EQ(resumed->save(), one->save());
  for (int i = 0; i < 4; ++i) one->update(batch), resumed->update(batch);
  EXPECT_EQ(resumed->save(), one->save());
  const auto without = make_learner(impala(), policy);
  EXPECT_THROW(one->restore(without->save()), troupe::SerializationError);
  RunConfig nothing = appo(3);
  nothing.impala.clip = 0;
  EXPECT_THROW((void)make_learner(nothing, policy), troupe::InvalidArgumentError);
}

OwnedSamples rollout_for(const RunConfig& config) {
  RolloutWorker worker(rollout_options(config, std::get<PolicySpec>(task_of(config).value().policy), 0, 0));
  OwnedSamples batch(worker.columns(), worker.samples());
  (void)worker.collect(params_of(config), on_policy_out(batch.layout(), batch.memory()));
  return batch;
}

TEST(A2cLearner, LRN1_LRN2_LRN3_AsEveryLearner) {
  const RunConfig config = defaults_of("a2c").value();
  const auto policy = task_of(config).value().policy;
  const OwnedSamples batch = rollout_for(config);
  const std::vector<SampleView> views{batch.view()};
  const auto one = make_learner(config, policy), two = make_learner(config, policy);
  for (int i = 0; i < 3; ++i) one->update(views);
  two->update(views);
  const auto resumed = make_learner(config, policy);
  resumed->restore(two->save());
  for (int i = 0; i < 2; ++i) two->update(views), resumed->update(views);
  EXPECT_TRUE(std::ranges::equal(one->params(), two->params()));
  EXPECT_TRUE(std::ranges::equal(one->params(), resumed->params()));
  expect_refused(config, rollout_for(config), [](OwnedSamples& bad) {
    bad.column("advantage").as<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  });
  const auto impala_learner = make_learner(impala(), policy);
  EXPECT_THROW(one->restore(impala_learner->save()), troupe::SerializationError) << "another algorithm's state";
}

}  // namespace
