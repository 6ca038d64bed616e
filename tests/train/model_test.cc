// What model.h promises of every model (MD-1 to MD-4), shown on both, and what they refuse.
#include <gtest/gtest.h>

#include <memory>

#include <troupe/error.h>

#include "apps/train/model/draws.h"
#include "apps/train/model/gpt.h"
#include "apps/train/model/mlp.h"
#include "tests/train/announced.h"

namespace {

using namespace troupe::train;

// A model with rows of its kind.
struct Subject {
  std::unique_ptr<Model<float>> model;
  std::vector<float> params, features;
  std::vector<std::int32_t> tokens, targets;
  std::size_t rows = 0;

  Batch batch(std::size_t first, std::size_t count) const {
    const auto part = [&](const auto& all) {
      return std::span(all).subspan(all.size() / rows * first, all.size() / rows * count);
    };
    return {.rows = count, .features = part(features), .tokens = part(tokens), .targets = part(targets)};
  }
  std::vector<float> gradients(const Batch& b, double divisor, const FinalFrom& final_from = {}) const {
    std::vector<float> out(params.size());
    model->step(b, params, out, divisor, final_from);
    return out;
  }
};

Subject gpt() {
  // 40 rows of 16 are three slices of a block (GP-2), the last one shorter.
  Subject s{.model = std::make_unique<Gpt<float>>(
                GptOptions{.vocab = 29, .time = 16, .channels = 24, .layers = 2, .heads = 3}),
            .params = {},
            .features = {},
            .tokens = {},
            .targets = {},
            .rows = 40};
  Draws draws(5);
  for (std::size_t i = 0; i < s.rows * 16; ++i) {
    s.tokens.push_back(static_cast<std::int32_t>(draws.unit() * 29));
    s.targets.push_back(static_cast<std::int32_t>(draws.unit() * 29));
  }
  s.params.resize(s.model->parameter_count());
  s.model->initialize(3, s.params);
  return s;
}

Subject mlp() {
  Subject s{.model = std::make_unique<Mlp<float>>(MlpOptions{.sizes = {7, 5, 6, 4}, .activation = Activation::kRelu}),
            .params = {}, .features = {}, .tokens = {}, .targets = {}, .rows = 40};
  Draws draws(5);
  for (std::size_t i = 0; i < s.rows * 7; ++i) s.features.push_back(static_cast<float>(draws.normal()));
  for (std::size_t i = 0; i < s.rows; ++i) s.targets.push_back(static_cast<std::int32_t>(draws.unit() * 4));
  s.params.resize(s.model->parameter_count());
  s.model->initialize(3, s.params);
  return s;
}

struct Maker {
  const char* name;
  Subject (*make)();
};
void PrintTo(const Maker& maker, std::ostream* out) { *out << maker.name; }

class EveryModel : public testing::TestWithParam<Maker> {
 protected:
  Subject subject = GetParam().make();
};
INSTANTIATE_TEST_SUITE_P(Train, EveryModel, testing::Values(Maker{"Gpt", &gpt}, Maker{"Mlp", &mlp}),
                         [](const auto& info) { return info.param.name; });

TEST_P(EveryModel, AddsItsGradientsSoThatMicroBatchesAccumulate) {  // MD-1, MD-2
  const auto whole = subject.gradients(subject.batch(0, 40), 40);
  std::vector<float> parts(whole.size());
  subject.model->step(subject.batch(0, 13), subject.params, parts, 40, {});
  subject.model->step(subject.batch(13, 27), subject.params, parts, 40, {});
  float largest = 0;
  for (const float g : whole) largest = std::max(largest, std::abs(g));
  ASSERT_GT(largest, 0);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-5 * largest) << i;
}

TEST_P(EveryModel, WritesNoElementThatItCalledFinal) {  // MD-3
  std::vector<float> gradients(subject.params.size());
  model_promises::Announced announced(gradients);
  subject.model->step(subject.batch(0, 40), subject.params, gradients, 40, announced.listener());
  ASSERT_GE(announced.count(), 3u);  // not everything at the end: reduction overlaps the backward pass
  announced.expect_kept();
}

TEST_P(EveryModel, GivesTheSameBitsWhateverCameBefore) {  // MD-4
  const auto first = subject.gradients(subject.batch(0, 11), 11);
  subject.gradients(subject.batch(0, 40), 7);
  subject.model->evaluate(subject.batch(5, 30), subject.params);
  EXPECT_EQ(subject.gradients(subject.batch(0, 11), 11), first);
}

TEST_P(EveryModel, DoesNotCountTargetsBelowZero) {
  const auto want = subject.model->evaluate(subject.batch(0, 10), subject.params);
  std::fill(subject.targets.begin() + static_cast<std::ptrdiff_t>(subject.targets.size() / 4), subject.targets.end(),
            -1);
  const auto got = subject.model->evaluate(subject.batch(0, 40), subject.params);
  EXPECT_EQ(got.counted, want.counted);
  EXPECT_NEAR(got.sum, want.sum, 1e-4);
}

TEST_P(EveryModel, TakesNoRowsAsNothingToAdd) {
  std::vector<std::size_t> told;
  const auto gradients = subject.gradients(subject.batch(0, 0), 1, [&](std::size_t offset) { told.push_back(offset); });
  EXPECT_EQ(gradients, std::vector<float>(gradients.size()));
  EXPECT_EQ(told, std::vector<std::size_t>{0});
}

TEST_P(EveryModel, RefusesWhatDoesNotFit) {
  std::vector<float> gradients(subject.params.size());
  Batch short_targets = subject.batch(0, 4);
  short_targets.targets = short_targets.targets.first(short_targets.targets.size() - 1);
  EXPECT_THROW(subject.model->step(short_targets, subject.params, gradients, 4, {}), troupe::InvalidArgumentError);
  EXPECT_THROW(subject.model->step(subject.batch(0, 4), subject.params, gradients, 0, {}),
               troupe::InvalidArgumentError);
  EXPECT_THROW(subject.model->step(subject.batch(0, 4), subject.params, std::span(gradients).first(3), 4, {}),
               troupe::InvalidArgumentError);
  EXPECT_THROW(subject.model->evaluate(subject.batch(0, 4), std::span(subject.params).first(3)),
               troupe::InvalidArgumentError);
  subject.targets[1] = 1000;
  EXPECT_THROW(subject.model->step(subject.batch(0, 4), subject.params, gradients, 4, {}),
               troupe::InvalidArgumentError);
  EXPECT_EQ(gradients, std::vector<float>(gradients.size()));
}

// The slope along a random direction, from two losses in double: no recording is needed, so any size can be tried.
TEST(GptGradient, IsTheSlopeOfTheLossAtAwkwardSizes) {
  for (const GptOptions o : {GptOptions{.vocab = 3, .time = 1, .channels = 2, .layers = 1, .heads = 1},
                             GptOptions{.vocab = 17, .time = 5, .channels = 9, .layers = 3, .heads = 3}}) {
    Gpt<double> model(o);
    Draws draws(11);
    const std::size_t rows = 7;
    std::vector<std::int32_t> tokens, targets;
    for (std::size_t i = 0; i < rows * o.time; ++i) {
      tokens.push_back(static_cast<std::int32_t>(draws.unit() * static_cast<double>(o.vocab)));
      targets.push_back(static_cast<std::int32_t>(draws.unit() * static_cast<double>(o.vocab)));
    }
    const Batch batch{.rows = rows, .features = {}, .tokens = tokens, .targets = targets};
    std::vector<double> params(model.parameter_count()), gradients(params.size()), direction(params.size());
    for (double& p : params) p = 0.5 * draws.normal();
    for (double& d : direction) d = draws.normal();
    model.step(batch, params, gradients, 3, {});
    double slope = 0;
    for (std::size_t i = 0; i < params.size(); ++i) slope += gradients[i] * direction[i];
    const double step = 1e-5;
    const auto loss_at = [&](double by) {
      auto moved = params;
      for (std::size_t i = 0; i < params.size(); ++i) moved[i] += by * direction[i];
      return model.evaluate(batch, moved).sum / 3;
    };
    EXPECT_NEAR((loss_at(step) - loss_at(-step)) / (2 * step), slope, 1e-6 * std::max(1.0, std::abs(slope)));
  }
}

TEST(Gpt, RefusesTokensOutsideTheVocabularyAndOptionsThatCannotBe) {
  Subject s = gpt();
  s.tokens[3] = 29;
  EXPECT_THROW(s.model->evaluate(s.batch(0, 2), s.params), troupe::InvalidArgumentError);
  s.tokens[3] = -1;
  EXPECT_THROW(s.model->evaluate(s.batch(0, 2), s.params), troupe::InvalidArgumentError);
  EXPECT_FALSE(check(GptOptions{.channels = 10, .heads = 3}).ok());
  EXPECT_FALSE(check(GptOptions{.layers = 0}).ok());
  EXPECT_THROW(Gpt<float>(GptOptions{.channels = 10, .heads = 3}), troupe::InvalidArgumentError);
  EXPECT_FALSE(check(MlpOptions{.sizes = {4}}).ok());
  EXPECT_FALSE(check(MlpOptions{.sizes = {4, 0, 2}}).ok());
}

}  // namespace
