// PHX-1, PLR-1 to PLR-2, TRR-1 to TRR-7, ANO-1 to ANO-3: off-policy runners, their streams, and the players that they
// act by.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <span>

#include <gtest/gtest.h>

#include "apps/rl/algorithms/action_noise.h"
#include "apps/rl/algorithms/philox.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/config/runner_options.h"
#include "apps/rl/samples/transitions.h"
#include "apps/rl/training/transition_runner.h"

namespace {

using namespace rl;

TEST(Philox, PHX1_TheWordsAreThoseOfItsAuthors) {  // Random123's kat_vectors, philox4x32 with 10 rounds
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryPartOfAStreamsNameMakesAnotherSeed) {
  const StreamId first{.job = 3, .runner = 1, .life = 2, .resumed_from = 100, .environment = 4};
  std::array<StreamId, 6> others;
  others.fill(first);
  others[0].job = 4, others[1].runner = 2, others[2].life = 3, others[3].resumed_from = 101, others[4].environment = 5,
  others[5].environment = StreamId::kActions;
  std::set<std::uint64_t> seeds{seed_of(first)};
  for (const StreamId& other : others) seeds.insert(seed_of(other));
  EXPECT_EQ(seeds.size(), 7u);
  EXPECT_EQ(seed_of(first), seed_of(first));
}

TransitionRunnerOptions cartpole(const RunConfig& config) {
  return transition_runner_options(config, task_of(config).value().policy, 0, 0);
}

RunConfig dqn() {
  RunConfig out = defaults_of("dqn").value();
  out.num_envs = 3;
  out.replay.learning_starts = 0;
  out.dqn.epsilon = out.dqn.epsilon_last = 0.5;
  return out;
}

std::vector<float> params_of(const RunConfig& config) {
  const auto learner = make_learner(config, task_of(config).value().policy);
  return {learner->params().begin(), learner->params().end()};
}

std::vector<std::byte> bytes_of(const OwnedSamples& samples) {
  const SampleView view = samples.view();
  return {view.memory, view.memory + view.layout.bytes()};
}

TEST(TransitionRunner, TRR1_TRR5_TheSameStreamGivesTheSameAndAnotherLifeAnother) {
  const RunConfig config = dqn();
  const auto params = params_of(config);
  const auto played = [&](std::uint32_t life) {
    TransitionRunnerOptions options = cartpole(config);
    options.life = life;
    TransitionRunner runner(options);
    (void)runner.play(params, {.steps = 40});
    return bytes_of(runner.take());
  };
  EXPECT_EQ(played(0), played(0));
  EXPECT_NE(played(0), played(1));
}

TEST(TransitionRunner, TRR2_EveryStepIsTheStartOfOneTransition) {
  RunConfig config = dqn();
  for (const std::size_t n : {1u, 3u}) {
    config.replay.n_step = n;
    TransitionRunner runner(cartpole(config));
    const auto params = params_of(config);
    std::size_t rows = 0, episodes = 0;
    for (int play = 0; play < 10; ++play) {
      episodes += runner.play(params, {.steps = 20}).size();
      rows += runner.take().rows();
    }
    EXPECT_GT(episodes, 3u);
    EXPECT_LE(rows, 600u);
    EXPECT_GE(rows, 600u - 3 * (n - 1)) << "but for the windows that are open";
  }
}

TEST(TransitionRunner, TRR3_FirstAnyActionsThenThoseOfThePolicyAndItsEpsilon) {
  RunConfig config = dqn();
  config.num_envs = 64;
  config.replay.learning_starts = 640;
  config.dqn.epsilon = config.dqn.epsilon_last = 0;
  const auto params = params_of(config);
  TransitionRunner runner(cartpole(config));
  const auto share_of_best = [&](std::int64_t done) {
    (void)runner.play(params, {.steps = 10, .done = done, .together = 64});
    const OwnedSamples samples = runner.take();
    const auto best = make_player(task_of(config).value().policy);
    OwnedRows actions(Discrete{.n = 2}, samples.rows());
    best->best(params, samples.view().column("obs"), actions.view());
    const auto taken = samples.view().column("action").as<std::int64_t>();
    std::size_t same = 0;
    for (std::size_t i = 0; i < samples.rows(); ++i) same += taken[i] == actions.as<std::int64_t>()[i];
    return static_cast<double>(same) / static_cast<double>(samples.rows());
  };
  const double before = share_of_best(0);
  EXPECT_GT(before, 0.4);
  EXPECT_LT(before, 0.6) << "640 fair coins";
  EXPECT_EQ(share_of_best(640), 1.0) << "without epsilon every action is the best";
}

TEST(TransitionRunner, TRR3_EpsilonFallsWithTheStepsOfAllRunners) {
  TransitionRunnerOptions options = cartpole(dqn());
  options.num_envs = 100;
  options.epsilon = {.first = 1, .last = 0, .over_steps = 1000};
  TransitionRunner runner(options);
  const auto params = params_of(dqn());
  const auto share_of_best = [&](std::int64_t done) {
    (void)runner.play(params, {.steps = 5, .done = done, .together = 0});
    const OwnedSamples samples = runner.take();
    OwnedRows actions(Discrete{.n = 2}, samples.rows());
    make_player(options.policy)->best(params, samples.view().column("obs"), actions.view());
    const auto taken = samples.view().column("action").as<std::int64_t>();
    double same = 0;
    for (std::size_t i = 0; i < samples.rows(); ++i) same += taken[i] == actions.as<std::int64_t>()[i] ? 1 : 0;
    return same / static_cast<double>(samples.rows());
  };
  EXPECT_NEAR(share_of_best(0), 0.5, 0.1);
  EXPECT_NEAR(share_of_best(500), 0.75, 0.1);
  EXPECT_EQ(share_of_best(1000), 1.0);
}

TEST(TransitionRunner, TRR4_AFaultIsNoReturnAndItsPrefixIsKeptOrDropped) {
  RunConfig config = dqn();
  config.env = {.id = "throw:CartPole-v1", .kwargs = R"({"p": 0.2})"};
  config.replay.n_step = 3;
  const auto params = params_of(config);
  const auto rows_of = [&](const char* prefix) {
    config.fault_prefix = prefix;
    TransitionRunner runner(cartpole(config));
    (void)runner.play(params, {.steps = 400});
    const FaultCounts faults = runner.take_faults();
    EXPECT_GT(faults[0], 0) << "episodes did fault";
    EXPECT_EQ(runner.take_faults()[0], 0) << "they are counted once";
    const OwnedSamples samples = runner.take();
    for (const float discount : samples.view().column("discount").as<float>()) EXPECT_LE(discount, 1.0f);
    return samples.rows();
  };
  EXPECT_GT(rows_of("bootstrap"), rows_of("drop")) << "dropped windows give no transitions";
}

TEST(TransitionRunner, APolicyForOtherSpacesIsRefused) {
  RunConfig acrobot = dqn();
  acrobot.env.id = "Acrobot-v1";
  TransitionRunnerOptions options = cartpole(acrobot);
  options.env.id = "CartPole-v1";
  EXPECT_THROW(TransitionRunner{options}, troupe::InvalidArgumentError);
}

TEST(TransitionRunner, ASquashedGaussianKeepsTheBoundsOfItsBox) {
  const RunConfig config = [] {
    RunConfig out = defaults_of("sac").value();
    out.replay.learning_starts = 20;
    return out;
  }();
  TransitionRunner runner(cartpole(config));
  (void)runner.play(params_of(config), {.steps = 20});
  const OwnedSamples random = runner.take();
  (void)runner.play(params_of(config), {.steps = 20, .done = 20});
  const OwnedSamples own = runner.take();
  float largest = 0;
  for (const OwnedSamples* samples : {&random, &own})
    for (const float action : samples->view().column("action").as<float>()) {
      EXPECT_LE(std::abs(action), 2.0f);
      largest = std::max(largest, std::abs(action));
    }
  EXPECT_GT(largest, 1.0f) << "they reach beyond the middle of the box";
}

double correlation(std::span<const double> x, std::size_t lag) {
  double mean = 0, square = 0, product = 0;
  for (const double one : x) mean += one / static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) square += (x[i] - mean) * (x[i] - mean);
  for (std::size_t i = lag; i < x.size(); ++i) product += (x[i] - mean) * (x[i - lag] - mean);
  return product / square;
}

TEST(ColoredNoise, HasUnitVarianceAndTheSpectrumOfItsColor) {
  Generator generator(1);
  for (const double beta : {0.0, 1.0, 2.0}) {
    // Power at frequencies 8 and 64, over many sequences: they differ by 8^beta.
    double low = 0, high = 0, square = 0;
    constexpr std::size_t kSequences = 400, kPeriod = 256;
    std::vector<double> x(kPeriod);
    const auto power = [&](double frequency) {
      double cosine = 0, sine = 0;
      for (std::size_t i = 0; i < kPeriod; ++i) {
        const double angle = 2 * std::numbers::pi * frequency * static_cast<double>(i) / kPeriod;
        cosine += x[i] * std::cos(angle), sine += x[i] * std::sin(angle);
      }
      return cosine * cosine + sine * sine;
    };
    for (std::size_t i = 0; i < kSequences; ++i) {
      colored_noise(beta, generator, x);
      low += power(8), high += power(64);
      for (const double one : x) square += one * one / (kPeriod * kSequences);
    }
    EXPECT_NEAR(std::log(low / high) / std::log(8), beta, 0.15) << "400 sequences: a deviation of 0.03 in the exponent";
    EXPECT_NEAR(square, 1, 0.15);
  }
  std::vector<double> odd(100);
  EXPECT_THROW(colored_noise(1, generator, odd), troupe::InvalidArgumentError);
  EXPECT_THROW(make_colored_noise({.period = 3}), troupe::InvalidArgumentError);
}

TEST(ColoredNoise, ANO1_ANO2_EachEnvironmentHasItsOwnAndBeginsAnewWithItsEpisode) {
  const auto numbers = [](bool reset) {
    Generator generator(2);
    const auto noise = make_colored_noise({.num_envs = 2, .dimensions = 2, .period = 4});
    std::vector<double> out;
    for (int i = 0; i < 6; ++i) {
      const auto row = noise->next(generator);
      out.insert(out.end(), row.begin(), row.end());
      if (reset && i == 1) noise->reset(1);
    }
    return out;
  };
  const auto plain = numbers(false), with = numbers(true);
  EXPECT_EQ(plain, numbers(false));
  EXPECT_TRUE(std::equal(plain.begin(), plain.begin() + 8, with.begin()));
  EXPECT_EQ(plain[8], with[8]) << "environment 0 goes on";
  EXPECT_NE(plain[10], with[10]) << "environment 1 does not";
}

TEST(OrnsteinUhlenbeck, ItsDeviationAndItsMemoryAreThoseOfTheProcess) {
  Generator generator(3);
  const OrnsteinUhlenbeckOptions options{.sigma = 0.5, .theta = 1.0, .dt = 0.1};
  const auto noise = make_ornstein_uhlenbeck(options);
  std::vector<double> x;
  for (int i = 0; i < 100'000; ++i) x.push_back(noise->next(generator)[0]);
  // x' = 0.9 x + 0.5 sqrt(0.1) N: variance 0.025 / (1 - 0.81).
  double square = 0;
  for (const double one : x) square += one * one / static_cast<double>(x.size());
  EXPECT_NEAR(square, 0.025 / 0.19, 0.01);
  EXPECT_NEAR(correlation(x, 1), 0.9, 0.01);
  EXPECT_NEAR(correlation(x, 5), std::pow(0.9, 5), 0.03);
  noise->reset(0);
  EXPECT_LT(std::abs(noise->next(generator)[0]), 5 * 0.5 * std::sqrt(0.1));
}

TEST(HeldNoise, ANO3_ItStaysForItsIntervalAndGoesWithItsEpisode) {
  Generator generator(4);
  const auto noise = make_held_noise({.num_envs = 2, .dimensions = 3, .interval = 3});
  std::vector<std::vector<double>> first, second;  // of each environment
  for (int i = 0; i < 7; ++i) {
    const auto now = noise->next(generator);
    first.emplace_back(now.begin(), now.begin() + 3), second.emplace_back(now.begin() + 3, now.end());
    if (i == 0) noise->reset(1);
  }
  EXPECT_NE(first[0], second[0]);
  EXPECT_EQ(first[0], first[2]);
  EXPECT_NE(first[2], first[3]);
  EXPECT_EQ(first[3], first[5]);
  EXPECT_NE(second[0], second[1]) << "another episode";
  EXPECT_EQ(second[1], second[3]);
  EXPECT_NE(second[3], second[4]);
  const auto episode = make_held_noise({.dimensions = 1, .interval = 0});
  const double one = episode->next(generator)[0];
  for (int i = 0; i < 100; ++i) EXPECT_EQ(episode->next(generator)[0], one);
  episode->reset(0);
  EXPECT_NE(episode->next(generator)[0], one);
}

// GSD-1: with a matrix that stays, the noise of two steps that look alike is alike.
TEST(TransitionRunner, TRR6_TRR7_GsdesMatrixStaysAndIsSaved) {
  RunConfig config = defaults_of("sac").value();
  config.replay.learning_starts = 0;
  config.network.hidden = {16};
  config.sac.noise = "gsde", config.sac.gsde_log_std = 0;
  const auto actions = [](const OwnedSamples& samples) {
    const auto taken = samples.view().column("action").as<float>();
    return std::vector<double>(taken.begin(), taken.end());
  };
  const auto lag_one = [&](std::uint64_t interval) {
    config.sac.noise_interval = interval;
    TransitionRunner runner(cartpole(config));
    (void)runner.play(params_of(config), {.steps = 1000});
    return correlation(actions(runner.take()), 1);
  };
  EXPECT_GT(lag_one(64), 0.8);
  EXPECT_LT(lag_one(1), 0.3);
  config.sac.noise_interval = 7;
  const auto params = params_of(config);
  TransitionRunner runner(cartpole(config)), resumed(cartpole(config));
  (void)runner.play(params, {.steps = 10});
  (void)runner.take();
  ASSERT_TRUE(restore_state(resumed, save_state(runner).value()));
  (void)runner.play(params, {.steps = 20, .done = 10}), (void)resumed.play(params, {.steps = 20, .done = 10});
  EXPECT_EQ(actions(runner.take()), actions(resumed.take()));
}

TEST(TransitionRunner, TRR6_NoiseThatStaysMakesActionsThatStay) {
  RunConfig config = defaults_of("sac").value();
  config.replay.learning_starts = 0;
  const auto lag_one = [&](const char* noise, double beta) {
    config.sac.noise = noise, config.sac.noise_beta = beta;
    TransitionRunner runner(cartpole(config));
    (void)runner.play(params_of(config), {.steps = 2000});
    const OwnedSamples samples = runner.take();
    const auto actions = samples.view().column("action").as<float>();
    return correlation(std::vector<double>(actions.begin(), actions.end()), 1);
  };
  const double white = lag_one("white", 0);
  EXPECT_GT(lag_one("colored", 2), white + 0.3);
  EXPECT_GT(lag_one("ornstein-uhlenbeck", 0), white);
  TransitionRunnerOptions options = cartpole(dqn());
  options.noise.kind = NoiseKind::kColored;
  EXPECT_THROW(TransitionRunner{options}, troupe::InvalidArgumentError);
}

TEST(AnyPolicy, JsonReadsBackAndPartsCoverAllParameters) {
  std::vector<std::pair<std::string, RunConfig>> all;
  for (const std::string& algo : algorithm_names()) all.emplace_back(algo, defaults_of(algo).value());
  all.emplace_back("sac with gsde", defaults_of("sac").value());
  all.back().second.sac.noise = "gsde";
  for (const auto& [algo, config] : all) {
    const AnyPolicySpec spec = task_of(config).value().policy;
    EXPECT_EQ(any_policy_from_json(to_json(spec)).value(), spec) << algo;
    std::size_t at = 0;
    for (const PolicyPart& part : parts_of(spec)) {
      EXPECT_EQ(part.begin, at) << part.name;
      std::size_t count = 1;
      for (const std::size_t size : part.shape) count *= size;
      EXPECT_EQ(part.count, count) << part.name;
      at += part.count;
    }
    EXPECT_EQ(at, parameter_count_of(spec)) << algo;
  }
  EXPECT_FALSE(any_policy_from_json({{"kind", "oracle"}}).ok());
  EXPECT_FALSE(any_policy_from_json(3).ok());
}

TEST(AnyPolicy, RandomActionsAreElementsOfTheirSpaceAndAllOfThem) {
  Generator generator(1);
  OwnedRows coins(Discrete{.n = 3, .start = 5}, 300);
  random_actions(Discrete{.n = 3, .start = 5}, generator, coins.view());
  const auto seen = coins.as<std::int64_t>();
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()), (std::set<std::int64_t>{5, 6, 7}));
  const MultiDiscrete many{.nvec = {2, 4}, .start = {0, 10}};
  OwnedRows pairs(many, 300);
  random_actions(many, generator, pairs.view());
  std::set<std::int64_t> second;
  for (std::size_t i = 1; i < 600; i += 2) second.insert(pairs.as<std::int64_t>()[i]);
  EXPECT_EQ(second, (std::set<std::int64_t>{10, 11, 12, 13}));
  const Box open{.shape = {1}, .low = {-1}, .high = {std::numeric_limits<double>::infinity()}};
  OwnedRows numbers(open, 1);
  EXPECT_THROW(random_actions(open, generator, numbers.view()), troupe::InvalidArgumentError);
}

}  // namespace
