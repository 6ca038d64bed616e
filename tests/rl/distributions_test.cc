// DIS-1 to DIS-4: distributions of actions, against closed forms, counts of samples and finite differences.
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/policies/distribution.h"

namespace rl {
namespace {

using Batch = Distribution<float>::Batch;

struct Case {
  const char* name;
  Space space;
  std::vector<std::uint8_t> mask = {};  // of one row
};

std::vector<Case> cases() {
  const Box numbers{.dtype = DType::kFloat32, .shape = {2}, .low = {-1}, .high = {1}};
  return {{"one choice of three", Discrete{.n = 3}},
          {"from minus one on", Discrete{.n = 4, .start = -1}},
          {"with a mask", Discrete{.n = 4}, {1, 0, 1, 0}},
          {"several choices", MultiDiscrete{.nvec = {2, 3}, .start = {0, 5}}},
          {"several with a mask", MultiDiscrete{.nvec = {2, 3}}, {0, 1, 1, 1, 0}},
          {"numbers", numbers}};
}

constexpr std::size_t kRows = 5;

/// A distribution with parameters, mask and actions for kRows rows.
struct Drawn {
  explicit Drawn(const Case& one)
      : distribution(make_distribution<float>(one.space).value()),
        actions(one.space, kRows),
        log_prob(kRows),
        entropy(kRows) {
    Generator random(7);
    params.resize(kRows * distribution->parameters());
    for (float& x : params) x = static_cast<float>(random.uniform(-1, 1));
    for (std::size_t i = 0; i < kRows; ++i) mask.insert(mask.end(), one.mask.begin(), one.mask.end());
    distribution->sample(batch(), random, actions.view(), log_prob);
  }
  Batch batch() const { return {params, mask}; }
  /// The weighted sum that backward is the derivative of.
  double total(std::span<const float> of_log_prob, std::span<const float> of_entropy) const {
    std::vector<float> log_probs(kRows), entropies(kRows);
    distribution->evaluate(batch(), actions.view(), log_probs, entropies);
    double sum = 0;
    for (std::size_t i = 0; i < kRows; ++i) {
      sum += static_cast<double>(of_log_prob[i]) * static_cast<double>(log_probs[i]);
      sum += static_cast<double>(of_entropy[i]) * static_cast<double>(entropies[i]);
    }
    return sum;
  }

  std::unique_ptr<Distribution<float>> distribution;
  std::vector<float> params;
  std::vector<std::uint8_t> mask;
  OwnedRows actions;
  std::vector<float> log_prob, entropy;
};

TEST(DistributionTest, DIS1_TheSampleTellsTheProbabilityThatEvaluationFinds) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    Drawn drawn(one);
    std::vector<float> again(kRows);
    drawn.distribution->evaluate(drawn.batch(), drawn.actions.view(), again, drawn.entropy);
    for (std::size_t i = 0; i < kRows; ++i) EXPECT_NEAR(again[i], drawn.log_prob[i], 2e-6);
  }
}

TEST(DistributionTest, DIS1_ClosedForms) {
  const auto choice = make_distribution<float>(Discrete{.n = 3, .start = 2}).value();
  const std::vector<float> logits{0, std::log(2.0f), std::log(5.0f)};
  const std::vector<std::int64_t> second{3};
  std::vector<float> log_prob(1), entropy(1);
  choice->evaluate({logits}, ConstRows(std::span(second), 1), log_prob, entropy);
  EXPECT_NEAR(log_prob[0], std::log(2.0 / 8), 1e-6);
  EXPECT_NEAR(entropy[0], std::log(8.0) - 2.0 / 8 * std::log(2.0) - 5.0 / 8 * std::log(5.0), 1e-6);

  const auto normal = make_distribution<float>(Box{.shape = {2}, .low = {-1}, .high = {1}}).value();
  const std::vector<float> params{1, -1, std::log(2.0f), 0};  // means, then logarithms of deviations
  const std::vector<float> taken{3, -1};
  normal->evaluate({params}, ConstRows(std::span(taken), 2), log_prob, entropy);
  EXPECT_NEAR(log_prob[0], -0.5 - std::log(2.0) - std::log(2 * std::numbers::pi), 1e-6);
  EXPECT_NEAR(entropy[0], std::log(2.0) + std::log(2 * std::numbers::pi) + 1, 1e-6);
}

TEST(DistributionTest, DIS2_BackwardIsTheDerivative) {
  const std::vector<float> of_log_prob{1, -2, 0.5f, 3, 0}, of_entropy{0.3f, 0, -1, 0.1f, 2};
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    Drawn drawn(one);
    std::vector<float> got(drawn.params.size(), 99.0f);
    drawn.distribution->backward(drawn.batch(), drawn.actions.view(), of_log_prob, of_entropy, got);
    for (std::size_t i = 0; i < drawn.params.size(); ++i) {
      const float at = drawn.params[i], step = 0.0078125f;  // exact in float
      drawn.params[i] = at + step;
      const double up = drawn.total(of_log_prob, of_entropy);
      drawn.params[i] = at - step;
      const double down = drawn.total(of_log_prob, of_entropy);
      drawn.params[i] = at;
      EXPECT_NEAR(got[i], (up - down) / (2.0 * step), 2e-3 * std::max(1.0, std::abs(up - down) / step)) << i;
    }
  }
}

TEST(DistributionTest, DIS3_WhatIsMaskedIsNeverTaken) {
  const auto choice = make_distribution<float>(Discrete{.n = 4}).value();
  std::vector<float> params, log_prob(1000);
  std::vector<std::uint8_t> mask;
  for (int i = 0; i < 1000; ++i) params.insert(params.end(), {9, 0, 0, 9}), mask.insert(mask.end(), {0, 1, 1, 0});
  OwnedRows actions(Discrete{.n = 4}, 1000);
  Generator random(1);
  choice->sample({params, mask}, random, actions.view(), log_prob);
  for (std::int64_t action : actions.as<std::int64_t>()) ASSERT_TRUE(action == 1 || action == 2);
  EXPECT_NEAR(log_prob[0], std::log(0.5), 1e-6);
  choice->mode({params, mask}, actions.view());
  EXPECT_EQ(actions.as<std::int64_t>()[0], 1);

  const std::vector<std::uint8_t> none(4000);
  EXPECT_THROW(choice->mode({params, none}, actions.view()), troupe::InvalidArgumentError);
  const auto normal = make_distribution<float>(Box{.shape = {1}, .low = {-1}, .high = {1}}).value();
  OwnedRows numbers(Box{.shape = {1}, .low = {-1}, .high = {1}}, 1);
  const std::vector<float> row{0, 0};
  EXPECT_THROW(normal->mode({row, std::span(none).first(1)}, numbers.view()), troupe::InvalidArgumentError);
}

TEST(DistributionTest, SamplesFollowTheirProbabilities) {
  constexpr std::size_t kDraws = 40'000;
  const Space space = MultiDiscrete{.nvec = {2, 3}};
  const auto choices = make_distribution<float>(space).value();
  std::vector<float> params;
  for (std::size_t i = 0; i < kDraws; ++i)
    params.insert(params.end(), {0, std::log(3.0f), 0, std::log(2.0f), std::log(5.0f)});
  OwnedRows actions(space, kDraws);
  std::vector<float> log_prob(kDraws);
  Generator random(5);
  choices->sample({params}, random, actions.view(), log_prob);
  double second = 0, last = 0;
  for (std::size_t i = 0; i < kDraws; ++i) {
    second += actions.as<std::int64_t>()[2 * i] == 1 ? 1.0 / kDraws : 0;
    last += actions.as<std::int64_t>()[2 * i + 1] == 2 ? 1.0 / kDraws : 0;
  }
  EXPECT_NEAR(second, 0.75, 0.011);  // five standard errors; the draws are the same at every run
  EXPECT_NEAR(last, 0.625, 0.013);

  const Space numbers = Box{.shape = {1}, .low = {-1}, .high = {1}};
  const auto normal = make_distribution<float>(numbers).value();
  params.clear();
  for (std::size_t i = 0; i < kDraws; ++i) params.insert(params.end(), {2, std::log(0.5f)});
  OwnedRows drawn(numbers, kDraws);
  normal->sample({params}, random, drawn.view(), log_prob);
  double mean = 0, squares = 0;
  for (float x : drawn.as<float>()) mean += static_cast<double>(x) / kDraws;
  for (float x : drawn.as<float>()) squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
  EXPECT_NEAR(mean, 2, 0.0125);
  EXPECT_NEAR(std::sqrt(squares / kDraws), 0.5, 0.009);
}

TEST(DistributionTest, ActionsThatAreNoneAndSpacesWithoutDistributionAreRefused) {
  const auto choice = make_distribution<float>(Discrete{.n = 2, .start = 1}).value();
  const std::vector<float> params{0, 0};
  std::vector<float> log_prob(1), entropy(1);
  for (std::int64_t wrong : {0, 3}) {
    const std::vector<std::int64_t> action{wrong};
    EXPECT_THROW(choice->evaluate({params}, ConstRows(std::span(action), 1), log_prob, entropy),
                 troupe::InvalidArgumentError);
  }
  EXPECT_FALSE(make_distribution<float>(Discrete{.n = 0}).ok());
  EXPECT_FALSE(make_distribution<float>(Box{.dtype = DType::kUint8, .shape = {1}, .low = {0}, .high = {9}}).ok());
}

}  // namespace
}  // namespace rl
