// ARS-1 to ARS-3, PTR-1, PTR-2, and LRN-1 to LRN-3 of augmented random search.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "apps/rl/algorithms/ars.h"
#include "apps/rl/config/algorithms/ars.h"
#include "apps/rl/config/runner_options.h"
#include "apps/rl/samples/perturbations.h"
#include "apps/rl/training/perturbation_runner.h"

namespace {

using namespace rl;

std::vector<float> direction_of(const ArsDirection& which, std::size_t count) {
  std::vector<float> out(count);
  draw_direction(which, out);
  return out;
}

OwnedSamples samples_of(std::span<const ArsPair> pairs) {
  OwnedSamples out(perturbation_columns(), pairs.size());
  write_pairs(pairs, out.layout(), out.memory());
  return out;
}

RunConfig ars_config() {
  RunConfig config = defaults_of("ars").value();
  config.seed = 3;
  config.ars.directions = 4, config.ars.top = 2;
  return config;
}

PolicySpec ars_policy(const RunConfig& config) { return std::get<PolicySpec>(task_of(config).value().policy); }

void update(Learner& learner, std::span<const ArsPair> pairs) {
  const OwnedSamples samples = samples_of(pairs);
  const SampleView view = samples.view();
  (void)learner.update(std::span(&view, 1));
}

const std::vector<ArsPair> kPairs{{.direction = 0, .plus = 10, .minus = 30},
                                  {.direction = 1, .plus = 20, .minus = 5},
                                  {.direction = 2, .plus = 50, .minus = 40},
                                  {.direction = 3, .plus = 1, .minus = 2}};

TEST(Ars, ARS1_ADirectionDependsOnItsNameAlone) {
  const auto one = direction_of({.job = 1, .update = 2, .number = 3}, 1000);
  (void)direction_of({.job = 1, .update = 2, .number = 4}, 10);
  EXPECT_EQ(one, direction_of({.job = 1, .update = 2, .number = 3}, 1000));
  for (const ArsDirection other : {ArsDirection{.job = 2, .update = 2, .number = 3},
                                   ArsDirection{.job = 1, .update = 3, .number = 3},
                                   ArsDirection{.job = 1, .update = 2, .number = 4}})
    EXPECT_NE(one, direction_of(other, 1000));
  double mean = 0, squares = 0;
  for (const float number : one) mean += number / 1000.0, squares += number * number / 1000.0;
  EXPECT_NEAR(mean, 0, 0.15);  // 1,000 normal numbers: five deviations
  EXPECT_NEAR(squares, 1, 0.25);
}

TEST(Ars, ARS2_PairsCountByTheirLargerReturn) {
  const auto numbers = [](const std::vector<ArsPair>& pairs) {
    std::vector<std::uint32_t> out;
    for (const ArsPair& pair : pairs) out.push_back(pair.direction);
    return out;
  };
  EXPECT_EQ(numbers(best_pairs(kPairs, 3)), (std::vector<std::uint32_t>{2, 0, 1}));
  EXPECT_EQ(best_pairs(kPairs, 9).size(), 4u);
  const std::vector<ArsPair> equals{{.direction = 5, .plus = 1, .minus = 0}, {.direction = 4, .plus = 0, .minus = 1}};
  EXPECT_EQ(numbers(best_pairs(equals, 1)), (std::vector<std::uint32_t>{4}));
}

TEST(Ars, ARS3_TheDeviationIsThatOfTheReturnsThatCount) {
  // 50, 40, 10, 30: mean 32.5, squared deviations 306.25, 56.25, 506.25, 6.25.
  EXPECT_DOUBLE_EQ(deviation_of_returns(best_pairs(kPairs, 2)), std::sqrt(875.0 / 4));
  EXPECT_EQ(deviation_of_returns({}), 0);
}

TEST(ArsLearner, AStepIsThatOfTheAlgorithm) {
  const RunConfig config = ars_config();
  const PolicySpec policy = ars_policy(config);
  ArsLearner learner(ars_options(config, policy));
  const std::vector<float> before(learner.params().begin(), learner.params().end());
  update(learner, kPairs);
  const std::size_t count = searched_parameters(policy);
  ASSERT_EQ(count, 4u * 2 + 2);
  const auto two = direction_of({.job = 3, .update = 0, .number = 2}, count),
             zero = direction_of({.job = 3, .update = 0, .number = 0}, count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(before[i], 0) << "a policy without hidden layers begins at zero";
    const double sum = (50.0 - 40) * static_cast<double>(two[i]) + (10.0 - 30) * static_cast<double>(zero[i]);
    EXPECT_NEAR(learner.params()[i], 0.02 / (2 * std::sqrt(875.0 / 4) + 1e-6) * sum, 1e-7);
  }
  EXPECT_TRUE(std::equal(before.begin() + static_cast<std::ptrdiff_t>(count), before.end(),
                         learner.params().begin() + static_cast<std::ptrdiff_t>(count)))
      << "the value is not searched";
}

TEST(ArsLearner, ReturnsThatAreAllTheSameMakeNoStep) {
  RunConfig config = ars_config();
  config.network.hidden = {8};
  ArsLearner learner(ars_options(config, ars_policy(config)));
  const std::vector<float> before(learner.params().begin(), learner.params().end());
  EXPECT_TRUE(std::ranges::any_of(std::span(before).first(8), [](float number) { return number != 0; }));
  std::vector<ArsPair> same;
  for (std::uint32_t i = 0; i < 4; ++i) same.push_back({.direction = i, .plus = 7, .minus = 7});
  update(learner, same);
  EXPECT_TRUE(std::ranges::equal(before, learner.params()));
}

TEST(ArsLearner, LRN3_WhatCannotBeLearnedFromIsRefused) {
  const RunConfig config = ars_config();
  ArsLearner learner(ars_options(config, ars_policy(config)));
  update(learner, kPairs);
  const std::vector<float> before(learner.params().begin(), learner.params().end());
  const StateDict state = learner.save();
  auto twice = kPairs, missing = kPairs, unknown = kPairs, not_finite = kPairs;
  twice[1].direction = 0;
  missing.pop_back();
  unknown[1].direction = 4;
  not_finite[1].minus = std::numeric_limits<double>::quiet_NaN();
  for (const auto& pairs : {twice, missing, unknown, not_finite})
    EXPECT_THROW(update(learner, pairs), troupe::InvalidArgumentError);
  EXPECT_TRUE(std::ranges::equal(before, learner.params()));
  EXPECT_EQ(learner.save(), state);
}

TEST(ArsLearner, LRN2_ARestoredOneGoesOnBitForBit) {
  const RunConfig config = ars_config();
  ArsLearner one(ars_options(config, ars_policy(config))), two(ars_options(config, ars_policy(config)));
  update(one, kPairs);
  two.restore(one.save());
  for (Learner* learner : {static_cast<Learner*>(&one), static_cast<Learner*>(&two)}) update(*learner, kPairs);
  EXPECT_TRUE(std::ranges::equal(one.params(), two.params()));
  RunConfig other = config;
  other.network.hidden = {8};
  ArsLearner larger(ars_options(other, ars_policy(other)));
  const std::vector<float> before(larger.params().begin(), larger.params().end());
  EXPECT_THROW(larger.restore(one.save()), troupe::SerializationError);
  EXPECT_TRUE(std::ranges::equal(before, larger.params()));
}

TEST(PerturbationRunner, PTR1_WhatIsPlayedDependsOnTheOrderAlone) {
  const RunConfig config = ars_config();
  const PolicySpec policy = ars_policy(config);
  const ArsLearner learner(ars_options(config, policy));
  PerturbationRunner whole(perturbation_runner_options(config, policy)),
      parts(perturbation_runner_options(config, policy));
  const auto all = whole.play(learner.params(), {.update = 1, .first = 0, .count = 4});
  (void)parts.play(learner.params(), {.update = 0, .first = 0, .count = 2});
  auto halves = parts.play(learner.params(), {.update = 1, .first = 2, .count = 2});
  const auto rest = parts.play(learner.params(), {.update = 1, .first = 0, .count = 2});
  halves.insert(halves.begin(), rest.begin(), rest.end());
  ASSERT_EQ(all.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].direction, i);
    EXPECT_EQ(all[i].plus, halves[i].plus);
    EXPECT_EQ(all[i].minus, halves[i].minus);
  }
  // CartPole: a step's reward is 1, so the episodes end where their returns add up to.
  double steps = 0;
  ASSERT_EQ(whole.episodes().size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(whole.episodes()[i].episode_return, i % 2 == 0 ? all[i / 2].plus : all[i / 2].minus);
    steps += whole.episodes()[i].episode_return;
    EXPECT_EQ(whole.episodes()[i].step + 1, steps);
  }
}

TEST(PerturbationRunner, PTR2_AnEpisodeThatFaultedIsPlayedAnew) {
  RunConfig config = ars_config();
  config.env.id = "throw:CartPole-v1", config.env.kwargs = R"({"p": 0.02})";
  const PolicySpec policy = ars_policy(config);
  const ArsLearner learner(ars_options(config, policy));
  PerturbationRunner runner(perturbation_runner_options(config, policy));
  std::uint64_t faults = 0;
  for (std::int64_t update = 0; update < 20; ++update) {
    const auto pairs = runner.play(learner.params(), {.update = update, .first = 0, .count = 4});
    double steps = 0;
    for (const ArsPair& pair : pairs) steps += pair.plus + pair.minus;
    EXPECT_EQ(runner.episodes().back().step + 1, steps) << "steps of broken episodes count";
    faults += runner.take_faults()[static_cast<std::size_t>(FaultKind::kThrew)];
  }
  EXPECT_GT(faults, 5u);
  config.env.kwargs = R"({"p": 1.0})";
  PerturbationRunner hopeless(perturbation_runner_options(config, policy));
  EXPECT_THROW((void)hopeless.play(learner.params(), {.update = 0, .first = 0, .count = 1}), troupe::RuntimeEnvError);
}

TEST(Ars, LRN1_CartPoleIsLearned) {
  RunConfig config = defaults_of("ars").value();
  const PolicySpec policy = ars_policy(config);
  ArsLearner learner(ars_options(config, policy));
  PerturbationRunner runner(perturbation_runner_options(config, policy));
  double mean = 0;
  for (std::int64_t number = 0; number < 60; ++number) {
    const auto pairs = runner.play(learner.params(), {.update = number, .first = 0, .count = 8});
    update(learner, pairs);
    mean = 0;
    for (const ArsPair& pair : pairs) mean += (pair.plus + pair.minus) / 16;
  }
  EXPECT_GT(mean, 400);  // any actions: 22
}

}  // namespace
