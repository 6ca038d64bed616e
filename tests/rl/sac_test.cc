// SQG-1 to SQG-4, SCG-1 to SCG-4, SAL-1 to SAL-3, NET-5, NET-7, NET-8, GSD-1, LRN-1 to LRN-3 of SAC. That it
// learns: gates_test.py.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/algorithms/sac.h"
#include "apps/rl/learners/sac_learner.h"
#include "apps/rl/networks/gsde_network.h"
#include "apps/rl/networks/layered_network.h"

namespace {

using namespace rl;
using troupe::kernels::Isa;

const Box kWatched{.dtype = DType::kFloat32, .shape = {3}, .low = {-10}, .high = {10}};
const Box kPushed{.dtype = DType::kFloat32, .shape = {2}, .low = {-2, 1}, .high = {2, 9}};

std::vector<double> wide_numbers(Generator& random, std::size_t count, double low, double high) {
  std::vector<double> out(count);
  for (double& x : out) x = random.uniform(low, high);
  return out;
}

// Compares a gradient with the differences of a loss, one number after the other.
template <class Loss>
void expect_gradient(std::vector<double>& numbers, std::span<const double> gradient, Loss loss) {
  ASSERT_EQ(numbers.size(), gradient.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double kept = numbers[i];
    numbers[i] = kept + 1e-6;
    const double above = loss();
    numbers[i] = kept - 1e-6;
    const double below = loss();
    numbers[i] = kept;
    ASSERT_NEAR(gradient[i], (above - below) / 2e-6, 2e-6) << i;
  }
}

TEST(SquashedGaussian, SQG1_SQG2_GradientsMatchFiniteDifferences) {
  Generator random(1);
  auto outputs = wide_numbers(random, 5 * 4, -1.5, 1.5);
  outputs[2] = 2.5, outputs[7] = -21;  // clamped ones
  const auto noise = wide_numbers(random, 10, -2, 2), d_action = wide_numbers(random, 10, -1, 1);
  std::vector<double> action(10), log_prob(5), d_outputs(20, 9.0);
  const auto loss = [&] {
    squash<double>(2, outputs, noise, action, log_prob);
    double sum = 0;
    for (std::size_t i = 0; i < 10; ++i) sum += d_action[i] * action[i];
    for (const double one : log_prob) sum += 0.7 * one;
    return sum;
  };
  loss();
  squash_backward<double>(2, outputs, noise, action, d_action, 0.7, d_outputs);
  EXPECT_EQ(d_outputs[2], 0);
  EXPECT_EQ(d_outputs[7], 0);
  expect_gradient(outputs, d_outputs, loss);
}

TEST(ActionScale, SQG4_ActionsKeepTheirBoundsAndComeBack) {
  const ActionScale scale(kPushed);
  std::vector<float> unit{-1, -1, 1, 1, 0, 0, 0.5f, -0.25f}, actions(8), back(8);
  scale.to_box(unit, actions);
  EXPECT_EQ(actions, (std::vector<float>{-2, 1, 2, 9, 0, 5, 1, 4}));
  scale.from_box(actions, back);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(back[i], unit[i], 1e-6);
  const Box odd{.dtype = DType::kFloat32, .shape = {1}, .low = {-0.1}, .high = {0.3}};
  const std::vector<float> ends{-1, 1};
  actions.resize(2);
  ActionScale(odd).to_box(ends, actions);
  EXPECT_GE(actions[0], -0.1f);
  EXPECT_LE(actions[1], 0.3f);
}

SquashedGaussianSpec small_actor(std::vector<std::size_t> hidden = {8, 7}, Activation activation = Activation::kRelu) {
  return squashed_gaussian_for(kWatched, kPushed, {.hidden = std::move(hidden), .activation = activation}).value();
}

TEST(SquashedGaussian, SQG3_SamplesAndTheMode) {
  const SquashedGaussianSpec spec = small_actor();
  SquashedGaussian policy(spec);
  std::vector<float> params(spec.network.parameter_count());
  params[params.size() - 4] = 0.3f;                              // the first mean; its deviation is 1
  params[params.size() - 1] = static_cast<float>(std::log(0.5));  // the second deviation; its mean is 0
  constexpr std::size_t kRows = 4000;
  const std::vector<float> obs(3 * kRows);
  std::vector<float> actions(2 * kRows), again(2 * kRows);
  const ConstRows seen{std::span(obs), 3};
  policy.mode(params, seen, Rows(std::span(actions), 2));
  EXPECT_NEAR(actions[0], 2 * std::tanh(0.3), 1e-5);
  EXPECT_NEAR(actions[1], 5, 1e-5);
  Generator first(3), second(3);
  policy.sample(params, seen, first, Rows(std::span(actions), 2));
  policy.sample(params, seen, second, Rows(std::span(again), 2));
  EXPECT_EQ(actions, again);
  double mean[2] = {}, square[2] = {};
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const double unit = i % 2 == 0 ? actions[i] / 2 : (actions[i] - 5) / 4, u = std::atanh(unit);
    mean[i % 2] += u / kRows, square[i % 2] += u * u / kRows;
  }
  EXPECT_NEAR(mean[0], 0.3, 0.07);
  EXPECT_NEAR(mean[1], 0, 0.035);
  EXPECT_NEAR(square[0] - mean[0] * mean[0], 1, 0.1);
  EXPECT_NEAR(square[1], 0.25, 0.03);
}

TEST(SquashedGaussian, WhatItCannotBeIsRefusedAndItsJsonReadsBack) {
  const Box endless{.dtype = DType::kFloat32, .shape = {1}, .low = {-1}, .high = {HUGE_VAL}};
  const Box wide{.dtype = DType::kFloat64, .shape = {1}, .low = {-1}, .high = {1}};
  for (const Space& space : {Space(Discrete{.n = 2}), Space(endless), Space(wide)})
    EXPECT_FALSE(squashed_gaussian_for(kWatched, space).ok()) << to_string(space);
  EXPECT_EQ(squashed_gaussian_from_json(to_json(small_actor())).value(), small_actor());
  SquashedGaussianSpec narrow = small_actor();
  narrow.network.outputs = 3;
  EXPECT_FALSE(squashed_gaussian_from_json(to_json(narrow)).ok());
  EXPECT_FALSE(squashed_gaussian_from_json(boost::json::parse("[]")).ok());
}

constexpr std::size_t kGsdeRows = 6, kGsdeUnits = 7, kGsdeWide = 2;

NetworkSpec gsde_network(Activation activation) {
  return {.input = {3}, .hidden = {8, kGsdeUnits}, .activation = activation, .outputs = 2 * kGsdeWide,
          .gsde_first_log_std = -0.5};
}

TEST(GsdeNetwork, NET8_DeviationsAreThoseOfTheFeaturesTimesARandomMatrix) {
  const NetworkSpec spec = gsde_network(Activation::kTanh);
  EXPECT_EQ(spec.parameter_count(), 3u * 8 + 8 + 8 * 7 + 7 + 7 * 2 + 2 + 7 * 2);
  Generator random(5);
  std::vector<float> first(spec.parameter_count());
  initialize(spec, random, first);
  EXPECT_EQ(first.back(), -0.5f);
  auto params = wide_numbers(random, spec.parameter_count(), -1, 1);
  const auto x = wide_numbers(random, kGsdeRows * 3, -1, 1);
  std::vector<double> y(kGsdeRows * 4), phi(kGsdeRows * kGsdeUnits);
  GsdeNetwork<double> net(spec, {});
  net.forward(params, x, y);
  // The paper's formula, of the hidden layers alone.
  NetworkSpec hidden = spec;
  hidden.outputs = 0, hidden.gsde_first_log_std.reset();
  LayeredNetwork<double>(hidden, Isa::kReference).forward(params, x, phi);
  const LayerPlace linear = layers_of(spec).back();
  const double* log_std = params.data() + linear.biases + 2;
  for (std::size_t row = 0; row < kGsdeRows; ++row) {
    for (std::size_t k = 0; k < kGsdeWide; ++k) {
      double mean = params[linear.biases + k], variance = 0;
      for (std::size_t i = 0; i < kGsdeUnits; ++i) {
        const double feature = phi[row * kGsdeUnits + i], std = std::exp(log_std[k * kGsdeUnits + i]);
        mean += params[linear.weights + k * kGsdeUnits + i] * feature;
        variance += feature * feature * std * std;
      }
      EXPECT_NEAR(y[row * 4 + k], mean, 1e-12);
      EXPECT_NEAR(y[row * 4 + 2 + k], 0.5 * std::log(variance + 1e-6), 1e-12);
    }
  }
}

TEST(GsdeNetwork, NET1_NET2_GradientsMatchFiniteDifferences) {
  for (const Activation activation : {Activation::kTanh, Activation::kRelu}) {
    const NetworkSpec spec = gsde_network(activation);
    Generator random(6);
    auto params = wide_numbers(random, spec.parameter_count(), -1, 1), x = wide_numbers(random, kGsdeRows * 3, -1, 1);
    const auto dy = wide_numbers(random, kGsdeRows * 4, -1, 1);
    std::vector<double> y(dy.size()), grads(params.size(), 9.0), dx(x.size()), only(x.size());
    const auto net = make_network<double>(spec, {.input_gradients = true});
    const auto loss = [&] {
      net->forward(params, x, y);
      return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
    };
    loss();
    net->backward(params, dy, grads, dx);
    net->backward(params, dy, {}, only);
    EXPECT_EQ(only, dx) << "NET-5";
    expect_gradient(params, grads, loss);
    expect_gradient(x, dx, loss);
  }
}

TEST(GsdeNetwork, GSD1_ASampleIsTheMeanAndTheMatrixTimesTheFeatures) {
  const NetworkSpec spec = gsde_network(Activation::kRelu);
  Generator random(7);
  const auto params = wide_numbers(random, spec.parameter_count(), -1, 1), x = wide_numbers(random, 3, -1, 1);
  std::vector<double> y(4), phi(kGsdeUnits), normals(2), eps(2 * kGsdeUnits), action(2), log_prob(1);
  GsdeNetwork<double> net(spec, {});
  net.forward(params, x, y);
  NetworkSpec hidden = spec;
  hidden.outputs = 0, hidden.gsde_first_log_std.reset();
  LayeredNetwork<double>(hidden, Isa::kReference).forward(params, x, phi);
  const double* log_std = params.data() + layers_of(spec).back().biases + 2;
  double mean[2] = {}, square[2] = {};
  constexpr int kDraws = 20'000;
  for (int draw = 0; draw < kDraws; ++draw) {
    for (double& one : eps) one = standard_normal(random);
    net.normals(params, eps, normals);
    squash<double>(2, y, normals, action, log_prob);
    double expected_log_prob = 0;
    for (std::size_t k = 0; k < 2; ++k) {
      double u = y[k];
      for (std::size_t i = 0; i < kGsdeUnits; ++i)
        u += std::exp(log_std[k * kGsdeUnits + i]) * eps[k * kGsdeUnits + i] * phi[i];
      ASSERT_NEAR(action[k], std::tanh(u), 1e-9);
      // Of a normal number with the marginal deviation, pressed by tanh.
      const double std = std::exp(y[2 + k]), z = (u - y[k]) / std;
      expected_log_prob += -0.5 * z * z - y[2 + k] - 0.5 * std::log(2 * M_PI) - std::log1p(-action[k] * action[k]);
      mean[k] += z / kDraws, square[k] += z * z / kDraws;
    }
    if (std::abs(action[0]) > 0.99 || std::abs(action[1]) > 0.99) continue;  // the naive formula cancels there
    ASSERT_NEAR(log_prob[0], expected_log_prob, 1e-6);
  }
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_NEAR(mean[k], 0, 0.03);
    EXPECT_NEAR(square[k], 1, 0.04) << "20,000 draws: a deviation of 0.01, and the least variance of 1e-6";
  }
}

TEST(GsdeNetwork, WhatItCannotBeIsRefusedAndOtherPoliciesTakeNoMatrix) {
  EXPECT_FALSE(squashed_gaussian_for(kWatched, kPushed, {.hidden = {}, .gsde_first_log_std = -3}).ok());
  EXPECT_FALSE(squashed_gaussian_for(kWatched, kPushed, {.gsde_first_log_std = HUGE_VAL}).ok());
  const auto spec = squashed_gaussian_for(kWatched, kPushed, {.hidden = {5}, .gsde_first_log_std = -3}).value();
  EXPECT_EQ(squashed_gaussian_from_json(to_json(spec)).value(), spec);
  SquashedGaussian plain(squashed_gaussian_for(kWatched, kPushed, {.hidden = {5}}).value());
  const std::vector<float> params(100), obs(3);
  std::vector<float> actions(2);
  const std::vector<double> eps(10);
  Generator random(1);
  EXPECT_THROW(plain.sample(params, {std::span(obs), 3}, random, Rows(std::span(actions), 2), {.eps = eps}),
               troupe::InvalidArgumentError);
}

TEST(Network, NET5_WithoutGradientsOfParametersTheInputsAreTheSame) {
  const NetworkSpec spec{.input = {4}, .hidden = {40, 33}, .activation = Activation::kRelu, .outputs = 2};
  for (Isa isa : troupe::kernels::kAllIsas) {
    if (!isa_supported(isa)) continue;
    Generator random(2);
    std::vector<float> params(spec.parameter_count()), x(4 * 19), dy(2 * 19), y(2 * 19), dx(x.size()), only(x.size());
    for (auto* numbers : {&params, &x, &dy})
      for (float& one : *numbers) one = static_cast<float>(random.uniform(-1, 1));
    std::vector<float> grads(params.size());
    LayeredNetwork<float> net(spec, isa);
    net.forward(params, x, y);
    net.backward(params, dy, grads, dx);
    net.backward(params, dy, {}, only);
    EXPECT_EQ(only, dx);
  }
  LayeredNetwork<float> image({.input = {4, 4, 1}, .convolutions = {{.filters = 1, .kernel = 2}}, .outputs = 1},
                              Isa::kReference);
  std::vector<float> params(image.spec().parameter_count()), x(16), y(1), dx(16);
  image.forward(params, x, y);
  EXPECT_THROW(image.backward(params, y, {}, dx), troupe::InvalidArgumentError);
}

class SacGradients : public testing::Test {
 protected:
  static constexpr std::size_t kRows = 7;

  SacBatch<double> batch() const { return {obs, next_obs, action, reward, discount, weight}; }
  void act() { gradient.act(actor, batch(), noise, next_noise); }

  const SacNetworks networks = sac_networks(small_actor({8, 7}, Activation::kTanh).network, {9, 6}, Activation::kTanh);
  Generator random{3};
  std::vector<double> actor = wide_numbers(random, networks.actor.parameter_count(), -0.7, 0.7);
  std::vector<double> critics = wide_numbers(random, 2 * networks.critic.parameter_count(), -0.7, 0.7);
  const std::vector<double> targets = wide_numbers(random, critics.size(), -0.7, 0.7);
  std::vector<double> obs = wide_numbers(random, kRows * 3, -1, 1), next_obs = wide_numbers(random, kRows * 3, -1, 1);
  const std::vector<double> action = wide_numbers(random, kRows * 2, -1, 1);
  const std::vector<double> reward = wide_numbers(random, kRows, -2, 2);
  std::vector<double> discount = wide_numbers(random, kRows, 0, 1), weight = wide_numbers(random, kRows, 0.1, 1);
  const std::vector<double> noise = wide_numbers(random, kRows * 2, -2, 2);
  const std::vector<double> next_noise = wide_numbers(random, kRows * 2, -2, 2);
  std::vector<double> errors = std::vector<double>(kRows);
  SacGradient<double> gradient{networks, Isa::kReference};
};

TEST_F(SacGradients, SCG2_TheCriticsMatchFiniteDifferences) {
  act();
  std::vector<double> grads(critics.size()), ignored(critics.size());
  gradient.critic(critics, targets, batch(), 0.3, grads, errors);
  expect_gradient(critics, grads, [&] {
    return gradient.critic(critics, targets, batch(), 0.3, ignored, errors).loss;
  });
}

TEST_F(SacGradients, SCG2_TheActorMatchesFiniteDifferences) {
  act();
  std::vector<double> grads(actor.size()), ignored(actor.size());
  gradient.actor(actor, critics, batch(), 0.3, grads);
  expect_gradient(actor, grads, [&] {
    act();
    return gradient.actor(actor, critics, batch(), 0.3, ignored);
  });
}

TEST_F(SacGradients, SCG3_AnEndDoesNotLookAtWhatFollows) {
  discount.assign(kRows, 0);
  act();
  std::vector<double> grads(critics.size());
  const double want = gradient.critic(critics, targets, batch(), 0.3, grads, errors).target;
  EXPECT_NEAR(want, std::accumulate(reward.begin(), reward.end(), 0.0) / kRows, 1e-12);
  next_obs.assign(next_obs.size(), std::nan(""));
  act();
  EXPECT_EQ(gradient.critic(critics, targets, batch(), 0.3, grads, errors).target, want);
}

TEST_F(SacGradients, SCG4_WeightsAreTheCriticsOnly) {
  const auto losses = [&] {
    act();
    std::vector<double> grads(critics.size()), actor_grads(actor.size());
    const double critic = gradient.critic(critics, targets, batch(), 0.3, grads, errors).loss;
    return std::pair(critic, gradient.actor(actor, critics, batch(), 0.3, actor_grads));
  };
  const auto before = losses();
  for (double& one : weight) one *= 3;
  const auto after = losses();
  EXPECT_NEAR(after.first, 3 * before.first, 1e-12);
  EXPECT_EQ(after.second, before.second);
}

OwnedSamples push_minibatch(std::size_t rows, std::uint64_t seed) {
  OwnedSamples out(transition_columns(kWatched, kPushed), rows);
  Generator random(seed);
  for (const char* name : {"obs", "next_obs", "reward"})
    for (float& x : out.column(name).as<float>()) x = static_cast<float>(random.uniform(-1, 1));
  for (float& x : out.column("discount").as<float>()) x = random.random() < 0.1 ? 0.0f : 0.99f;
  const auto action = out.column("action").as<float>();
  for (std::size_t i = 0; i < action.size(); ++i)
    action[i] = static_cast<float>(i % 2 == 0 ? random.uniform(-2, 2) : random.uniform(1, 9));
  return out;
}

SacOptions push_options(std::uint64_t seed = 3) {
  return {.policy = small_actor({16, 16}), .critic_hidden = {16, 16}, .seed = seed};
}

UpdateReport push_update(SacLearner& learner, std::uint64_t seed) {
  const OwnedSamples batch = push_minibatch(16, seed);
  return learner.update(std::vector<SampleView>{batch.view()});
}

double metric_of(const UpdateReport& report, std::string_view name) {
  for (const Metric& metric : report.metrics) {
    if (metric.name == name) return metric.value;
  }
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

TEST(SacLearner, LRN1_LRN2_SameBitsAgainAndAfterARestore) {
  SacLearner first(push_options()), second(push_options()), other(push_options(4)), copy(push_options(5));
  for (std::uint64_t i = 0; i < 5; ++i) push_update(first, i), push_update(second, i), push_update(other, i);
  EXPECT_EQ(first.save(), second.save());
  EXPECT_NE(first.save(), other.save());
  copy.restore(first.save());
  for (std::uint64_t i = 9; i < 13; ++i) push_update(first, i), push_update(copy, i);
  EXPECT_EQ(copy.save(), first.save());
  SacOptions wider = push_options();
  wider.critic_hidden = {17};
  EXPECT_THROW(copy.restore(SacLearner(wider).save()), troupe::SerializationError);
  EXPECT_EQ(copy.save(), first.save());
}

TEST(SacLearner, SAL3_WhatIsPreparedChangesNothing) {
  SacLearner plain(push_options()), prepared(push_options());
  const auto update = [](SacLearner& learner, std::uint64_t seed) {
    const OwnedSamples batch = push_minibatch(seed % 3 == 0 ? 9 : 16, seed);  // noise for another number of rows, too
    learner.update(std::vector<SampleView>{batch.view()});
  };
  for (std::uint64_t i = 0; i < 9; ++i) {
    update(plain, i);
    prepared.prepare();
    prepared.prepare();
    update(prepared, i);
    EXPECT_EQ(plain.save(), prepared.save());
    prepared.prepare();
    EXPECT_EQ(plain.save(), prepared.save());
    if (i == 4) prepared.restore(plain.save());
  }
}

TEST(SacLearner, LRN3_WhatIsNotFiniteChangesNoParameters) {
  for (const char* name : {"obs", "next_obs", "action", "reward", "discount"}) {
    SacLearner learner(push_options());
    push_update(learner, 1);
    StateDict before = learner.save();
    OwnedSamples batch = push_minibatch(16, 2);
    for (float& one : batch.column("discount").as<float>()) one = 0.9f;
    batch.column(name).as<float>()[5] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(learner.update(std::vector<SampleView>{batch.view()}), troupe::InvalidArgumentError) << name;
    StateDict after = learner.save();
    before.put_one("generator", 0.0), after.put_one("generator", 0.0);  // the noise has been drawn
    EXPECT_EQ(after, before) << name;
  }
}

TEST(SacLearner, SAL1_HowTheMinibatchWasDividedDoesNotMatter) {
  SacLearner whole(push_options()), divided(push_options());
  const OwnedSamples left = push_minibatch(5, 1), right = push_minibatch(11, 2);
  const OwnedSamples both = concatenate(std::vector<SampleView>{left.view(), right.view()});
  const UpdateReport one = whole.update(std::vector<SampleView>{both.view()});
  const UpdateReport two = divided.update(std::vector<SampleView>{left.view(), right.view()});
  EXPECT_EQ(one.metrics, two.metrics);
  EXPECT_EQ(one.td_errors, two.td_errors);
  EXPECT_EQ(one.td_errors.size(), 16u);
  EXPECT_EQ(whole.save(), divided.save());
}

// One update in the order of its contract, put together from the parts.
TEST(SacLearner, SAL2_AnUpdateIsTemperatureThenCriticsThenActorThenTargets) {
  const SacOptions options = push_options();
  SacLearner learner(options);
  const StateDict before = learner.save();
  const OwnedSamples samples = push_minibatch(16, 7);
  const UpdateReport report = learner.update(std::vector<SampleView>{samples.view()});
  const StateDict after = learner.save();

  Generator generator(0);
  Generator::Saved saved{};
  std::ranges::copy(before.get<std::uint64_t>("generator", saved.size()), saved.begin());
  generator.restore(saved);
  std::vector<double> noise, next_noise;
  for (std::size_t row = 0; row < 16; ++row) {
    for (auto* to : {&noise, &next_noise})
      for (int k = 0; k < 2; ++k) to->push_back(standard_normal(generator));
  }
  const TransitionView all = transition_view(samples.view(), kWatched, kPushed);
  std::vector<float> unit(32);
  for (std::size_t i = 0; i < 32; ++i)
    unit[i] = i % 2 == 0 ? all.action.as<float>()[i] / 2 : (all.action.as<float>()[i] - 5) / 4;
  const SacBatch<float> batch{all.obs.as<float>(), all.next_obs.as<float>(), unit, all.reward, all.discount, {}};
  const auto& actor = before.get<float>("actor/params");
  const auto& critics = before.get<float>("critics/params");
  SacGradient<float> gradient(sac_networks(options.policy.network, {16, 16}, Activation::kRelu), options.isa);
  std::vector<float> critic_grads(critics.size()), actor_grads(actor.size());
  std::vector<double> errors(16);
  gradient.act(actor, batch, noise, next_noise);
  const SacCriticScalars critic = gradient.critic(critics, critics, batch, 1.0, critic_grads, errors);
  const auto& new_critics = after.get<float>("critics/params");
  const double actor_loss = gradient.actor(actor, new_critics, batch, 1.0, actor_grads);
  EXPECT_NEAR(metric_of(report, "critic_loss"), critic.loss, 1e-5);
  EXPECT_NEAR(metric_of(report, "actor_loss"), actor_loss, 1e-5);
  EXPECT_EQ(metric_of(report, "alpha"), 1.0);
  EXPECT_EQ(metric_of(report, "alpha_loss"), 0.0);  // log(1) times whatever
  double entropy = 0;
  for (const double one : gradient.log_prob()) entropy -= one / 16;
  EXPECT_NEAR(metric_of(report, "entropy"), entropy, 1e-6);
  // Adam's first step is the learning rate, against the sign of the gradient.
  const auto first_step = [&](const char* name, const std::vector<float>& grads) {
    const auto& old = before.get<float>(name);
    const auto& now = after.get<float>(name);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (std::abs(grads[i]) < 1e-4f) continue;
      ASSERT_NEAR(now[i] - old[i], grads[i] > 0 ? -3e-4 : 3e-4, 2e-6) << name << ' ' << i;
    }
  };
  first_step("critics/params", critic_grads), first_step("actor/params", actor_grads);
  // More entropy than wanted (-2): the temperature falls.
  ASSERT_GT(entropy, -2);
  EXPECT_NEAR(after.get<double>("temperature")[0], -3e-4, 1e-9);
  EXPECT_NEAR(learner.alpha(), std::exp(-3e-4), 1e-9);
  const auto& targets = after.get<float>("critics/target");
  for (std::size_t i = 0; i < targets.size(); ++i)
    ASSERT_NEAR(targets[i], critics[i] + 0.005f * (new_critics[i] - critics[i]), 1e-6);
}

TEST(SacLearner, AFixedTemperatureStaysAndBadOptionsAreRefused) {
  SacOptions options = push_options();
  options.temperature.fixed = 0.2;
  SacLearner learner(options);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(metric_of(push_update(learner, i), "alpha"), 0.2);
  EXPECT_EQ(learner.alpha(), 0.2);
  const auto refused = [](auto change) {
    SacOptions bad = push_options();
    change(bad);
    EXPECT_THROW(SacLearner{bad}, troupe::InvalidArgumentError);
  };
  refused([](SacOptions& o) { o.temperature.fixed = 0; });
  refused([](SacOptions& o) { o.temperature.first = -1; });
  refused([](SacOptions& o) { o.tau = 1.5; });
  refused([](SacOptions& o) { o.target_interval = 0; });
  refused([](SacOptions& o) { o.critic_hidden = {0}; });
  refused([](SacOptions& o) { o.policy.action_space = Discrete{.n = 2}; });
}

}  // namespace
