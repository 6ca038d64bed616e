// NET-1 to NET-7, AK-1, OBE-1: networks and what they see, against finite differences and one another.
#include <cmath>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/networks/column_network.h"
#include "apps/rl/networks/layered_network.h"
#include "apps/rl/networks/network.h"
#include "apps/rl/networks/small_network.h"
#include "apps/rl/policies/actor_critic.h"
#include "apps/rl/policies/observation_encoder.h"
#include "apps/rl/policies/policy_spec.h"

namespace {

using namespace rl;
using troupe::kernels::Isa;

template <class T = double>
std::vector<T> drawn(Generator& random, std::size_t count, double scale = 1) {
  std::vector<T> out(count);
  for (T& x : out) x = static_cast<T>(static_cast<float>(random.uniform(-scale, scale)));
  return out;
}

struct Case {
  const char* name;
  NetworkSpec spec;
};

std::vector<Case> cases() {
  return {{"linear", {.input = {3}, .hidden = {}, .outputs = 2}},
          {"one layer", {.input = {3}, .hidden = {5}, .outputs = 2}},
          {"two tanh layers", {.input = {4}, .hidden = {7, 6}, .outputs = 3}},
          {"three relu layers", {.input = {4}, .hidden = {7, 6, 5}, .activation = Activation::kRelu, .outputs = 3}},
          {"a trunk", {.input = {4}, .hidden = {7, 6}, .outputs = 0}},
          {"convolutions",
           {.input = {6, 5, 2}, .convolutions = {{.filters = 4, .kernel = 3}, {.filters = 3, .kernel = 2, .stride = 2}},
            .hidden = {5}, .activation = Activation::kTanh, .outputs = 2}}};
}

void expect_gradients_as_differences(const Case& one, Network<double>& net) {
  constexpr std::size_t kRows = 3;
  SCOPED_TRACE(one.name);
  ASSERT_TRUE(check_network(one.spec).ok());
  Generator random(2);
  auto params = drawn(random, one.spec.parameter_count()), x = drawn(random, kRows * one.spec.inputs());
  const auto dy = drawn(random, kRows * one.spec.row_size());
  std::vector<double> y(dy.size());
  const auto loss = [&] {
    net.forward(params, x, y);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  };
  loss();
  std::vector<double> grads(params.size(), 9.0), dx(x.size(), 9.0);  // written, not added to
  net.backward(params, dy, grads, dx);
  const auto expect = [&](std::vector<double>& numbers, const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double kept = numbers[i];
      numbers[i] = kept + 1e-6;
      const double above = loss();
      numbers[i] = kept - 1e-6;
      const double below = loss();
      numbers[i] = kept;
      ASSERT_NEAR(gradient[i], (above - below) / 2e-6, 1e-6) << i;
    }
  };
  expect(params, grads);
  expect(x, dx);
}

TEST(Network, NET2_GradientsMatchFiniteDifferences) {
  for (const Case& one : cases()) {
    LayeredNetwork<double> layered(one.spec, Isa::kReference);
    expect_gradients_as_differences(one, layered);
    if (!ColumnNetwork<double>::can(one.spec)) continue;
    ColumnNetwork<double> columns(one.spec, Isa::kReference);
    expect_gradients_as_differences(one, columns);
  }
}

// Rows in one part of ColumnNetwork, in several, and none.
TEST(Network, NET2_NET5_NET6_NET7_ColumnsGiveWhatLayersGive) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    EXPECT_EQ(dynamic_cast<ColumnNetwork<double>*>(make_network<double>(one.spec, {.input_gradients = true}).get()) !=
                  nullptr,
              one.spec.convolutions.empty());
    if (!ColumnNetwork<double>::can(one.spec)) continue;
    for (Isa isa : troupe::kernels::kAllIsas) {
      if (!isa_supported(isa)) continue;
      LayeredNetwork<float> layered(one.spec, isa);
      ColumnNetwork<float> columns(one.spec, isa);
      Generator random(3);
      const auto params = drawn<float>(random, one.spec.parameter_count(), 0.5);
      for (const std::size_t rows : {1u, 33u, 128u, 129u, 300u, 0u}) {
        const auto x = drawn<float>(random, rows * one.spec.inputs());
        const auto dy = drawn<float>(random, rows * one.spec.row_size());
        std::vector<float> y(dy.size()), want(dy.size()), dx(x.size()), want_dx(x.size()), only(x.size());
        std::vector<float> grads(params.size(), 9.0f), want_grads(params.size());
        columns.forward(params, x, y), layered.forward(params, x, want);
        columns.backward(params, dy, grads, dx), layered.backward(params, dy, want_grads, want_dx);
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], want[i], 1e-5) << rows;
        for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], want_dx[i], 1e-5) << rows;
        for (std::size_t i = 0; i < grads.size(); ++i) ASSERT_NEAR(grads[i], want_grads[i], 1e-4) << rows << ", " << i;
        columns.backward(params, dy, {}, only);
        EXPECT_EQ(only, dx);
        std::vector<float> some = dy;  // two rows of three have no slopes
        const std::size_t outputs = one.spec.row_size(), inputs = one.spec.inputs();
        for (std::size_t i = 0; i < some.size(); ++i)
          if (i / outputs % 3 != 0) some[i] = 0;
        columns.backward(params, some, {}, only);
        for (std::size_t i = 0; i < only.size(); ++i)  // NET-7
          ASSERT_EQ(only[i], i / inputs % 3 == 0 ? dx[i] : 0.0f) << rows << ", " << i;
      }
    }
  }
}

TEST(Network, NET4_TheSmallOneGivesWhatTheLayersGive) {
  const NetworkSpec spec{.input = {5}, .hidden = {64, 32}, .outputs = 3};
  for (Isa isa : troupe::kernels::kAllIsas) {
    if (!isa_supported(isa)) continue;
    Generator random(3);
    const auto params = drawn<float>(random, spec.parameter_count(), 0.3), x = drawn<float>(random, 33 * 5),
               dy = drawn<float>(random, 33 * 3);
    const auto small = make_network<float>(spec, {.isa = isa});
    ASSERT_NE(dynamic_cast<SmallNetwork<float>*>(small.get()), nullptr);
    LayeredNetwork<float> layered(spec, isa);
    std::vector<float> y(dy.size()), want(dy.size()), grads(params.size()), want_grads(params.size());
    small->forward(params, x, y), layered.forward(params, x, want);
    small->backward(params, dy, grads), layered.backward(params, dy, want_grads, {});
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], want[i], 1e-5);
    for (std::size_t i = 0; i < grads.size(); ++i) ASSERT_NEAR(grads[i], want_grads[i], 1e-4) << i;
  }
}

TEST(Network, NET3_EveryInstructionSetAndAnyEarlierBatchGiveTheSame) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    Generator random(4);
    const auto params = drawn<float>(random, one.spec.parameter_count());
    const auto x = drawn<float>(random, 9 * one.spec.inputs());
    const std::vector<double> wide_params(params.begin(), params.end()), wide_x(x.begin(), x.end());
    std::vector<double> want(9 * one.spec.row_size());
    make_network<double>(one.spec)->forward(wide_params, wide_x, want);
    for (Isa isa : troupe::kernels::kAllIsas) {
      if (!isa_supported(isa)) continue;
      const auto net = make_network<float>(one.spec, {.isa = isa});
      std::vector<float> y(want.size()), again(want.size());
      net->forward(params, x, y);
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], want[i], 1e-5);
      std::vector<float> shorter(4 * one.spec.row_size());
      net->forward(params, std::span(x).first(4 * one.spec.inputs()), shorter);
      net->forward(params, x, again);
      EXPECT_EQ(again, y);
    }
  }
}

TEST(Network, InitialWeightsAreOrthogonal) {
  const NetworkSpec spec{.input = {8}, .hidden = {16}, .outputs = 3, .output_gain = 0.01};
  std::vector<float> params(spec.parameter_count(), 7.0f);
  Generator random(5);
  initialize(spec, random, params);
  const auto layers = layers_of(spec);
  ASSERT_EQ(layers.size(), 2u);
  for (const auto& [layer, gain] : {std::pair(layers[0], std::sqrt(2.0)), std::pair(layers[1], 0.01)}) {
    const bool tall = layer.out > layer.in;
    const std::size_t count = tall ? layer.in : layer.out, length = tall ? layer.out : layer.in;
    const auto at = [&, &layer = layer](std::size_t vector, std::size_t i) {
      return static_cast<double>(params[layer.weights + (tall ? i * layer.in + vector : vector * layer.in + i)]);
    };
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b <= a; ++b) {
        double dot = 0;
        for (std::size_t i = 0; i < length; ++i) dot += at(a, i) * at(b, i);
        ASSERT_NEAR(dot / (gain * gain), a == b ? 1 : 0, 1e-5);
      }
    for (std::size_t i = 0; i < layer.out; ++i) EXPECT_EQ(params[layer.biases + i], 0.0f);
  }
}

TEST(Network, WhatCannotBeANetworkIsRefused) {
  const NetworkSpec good{.input = {10, 10, 4}, .convolutions = {{.filters = 16, .kernel = 3}}, .hidden = {128},
                         .outputs = 3};
  ASSERT_TRUE(check_network(good).ok());
  const auto refused = [&](auto change, const char* word) {
    NetworkSpec spec = good;
    change(spec);
    const auto checked = check_network(spec);
    ASSERT_FALSE(checked.ok()) << word;
    EXPECT_EQ(checked.error().code(), troupe::ErrorCode::kInvalidArgument);
    EXPECT_NE(checked.error().message().find(word), std::string::npos) << checked.error().message();
    EXPECT_FALSE(network_from_json(to_json(spec)).ok());
  };
  refused([](NetworkSpec& s) { s.input = {10, 0, 4}; }, "no numbers");
  refused([](NetworkSpec& s) { s.input = {400}; }, "dimensions");
  refused([](NetworkSpec& s) { s.convolutions[0].kernel = 11; }, "does not fit");
  refused([](NetworkSpec& s) { s.convolutions[0].stride = 0; }, "stride");
  refused([](NetworkSpec& s) { s.hidden = {0}; }, "unit");
  refused([](NetworkSpec& s) { s.hidden = {1 << 20, 1 << 20}; }, "parameters");
  refused([](NetworkSpec& s) { s.convolutions.clear(), s.hidden.clear(), s.outputs = 0; }, "no layers");
}

TEST(Network, ItsJsonReadsBackAndOtherJsonIsRefused) {
  for (const Case& one : cases()) EXPECT_EQ(network_from_json(to_json(one.spec)).value(), one.spec) << one.name;
  for (const char* text : {"{}", "[]", "null", "{\"input\": [-1]}"})
    EXPECT_FALSE(network_from_json(boost::json::parse(text)).ok()) << text;
  boost::json::value json = to_json(cases()[1].spec);
  json.as_object()["activation"] = "gelu";
  EXPECT_NE(network_from_json(json).error().message().find("tanh or relu"), std::string::npos);
}

const Box kImage{.dtype = DType::kUint8, .shape = {3, 8, 8}, .low = {0}, .high = {255}};
const Box kNumbers{.dtype = DType::kFloat32, .shape = {2}, .low = {-1}, .high = {1}};
const Box kRow{.dtype = DType::kFloat32, .shape = {4}, .low = {-1}, .high = {1}};

TEST(ActorCritic, GradientsMatchFiniteDifferencesWithATrunkAndWithDeviations) {
  struct Wanted {
    const char* name;
    Space obs, action;
    NetworkOptions options;
  };
  const std::vector<Wanted> wanted{
      {"two networks", kRow, Discrete{.n = 3}, {.hidden = {6, 5}}},
      {"numbers", kRow, kNumbers, {.hidden = {6}, .activation = Activation::kTanh, .initial_log_std = -0.5}},
      {"a trunk", kImage, kNumbers,
       {.hidden = {6}, .convolutions = {{.filters = 2, .kernel = 3, .stride = 2}}}}};
  for (const Wanted& one : wanted) {
    SCOPED_TRACE(one.name);
    const ActorCriticSpec spec = actor_critic_for(one.obs, one.action, one.options).value();
    EXPECT_EQ(actor_critic_from_json(to_json(spec)).value(), spec);
    Generator random(6);
    auto params = drawn(random, spec.parameter_count(), 0.5);
    const auto obs = drawn(random, 3 * spec.inputs());
    const auto dd = drawn(random, 3 * spec.distribution_size()), dv = drawn(random, 3);
    ActorCritic<double> net(spec, Isa::kReference);
    std::vector<double> distribution, values;
    const auto loss = [&] {
      net.evaluate(params, obs, distribution, values);
      double sum = 0;
      for (std::size_t i = 0; i < dd.size(); ++i) sum += distribution.at(i) * dd[i];
      for (std::size_t i = 0; i < dv.size(); ++i) sum += values.at(i) * dv[i];
      return sum;
    };
    loss();
    std::vector<double> grads(params.size(), 9.0);
    net.backward(params, dd, dv, grads);
    for (std::size_t i = 0; i < params.size(); ++i) {
      const double kept = params[i];
      params[i] = kept + 1e-6;
      const double above = loss();
      params[i] = kept - 1e-6;
      const double below = loss();
      params[i] = kept;
      ASSERT_NEAR(grads[i], (above - below) / 2e-6, 1e-6) << i;
    }
  }
}

TEST(ActorCritic, TheFirstDeviationsAreTheOnesAskedFor) {
  const ActorCriticSpec spec = actor_critic_for(kRow, kNumbers, {.initial_log_std = -1.5}).value();
  Generator random(1);
  const std::vector<float> params = initial_parameters(spec, random);
  ActorCritic<float> net(spec, troupe::kernels::best_isa());
  std::vector<float> distribution, values;
  net.evaluate(params, std::vector<float>{1, 2, 3, 4}, distribution, values);
  ASSERT_EQ(distribution.size(), 4u);
  EXPECT_EQ(distribution[2], -1.5f);
  EXPECT_EQ(distribution[3], -1.5f);
  EXPECT_LT(std::abs(distribution[0]), 0.1f) << "small first means";
}

TEST(PolicySpec, ItsJsonReadsBackAndNetworksThatDoNotFitAreRefused) {
  const PolicySpec spec = policy_for(kRow, Discrete{.n = 3}).value();
  EXPECT_EQ(policy_from_json(to_json(spec)).value(), spec);
  PolicySpec other = spec;
  other.action_space = Discrete{.n = 4};
  EXPECT_NE(check_policy(other).error().message().find("does not fit Discrete(4)"), std::string::npos);
  other = spec;
  other.observation_space = kNumbers;
  EXPECT_NE(check_policy(other).error().message().find("inputs does not fit"), std::string::npos);
  EXPECT_FALSE(policy_from_json(to_json(other)).ok());
}

TEST(ObservationEncoder, OBE1_ChoicesImagesAndNumbers) {
  std::vector<float> memory;
  const auto several = ObservationEncoder::make(MultiDiscrete{.nvec = {2, 3}, .start = {0, 5}}).value();
  const std::vector<std::int64_t> choices{1, 5, 0, 7};
  const auto hot = several.encode(ConstRows(std::span(choices), 2), memory);
  EXPECT_EQ(std::vector<float>(hot.begin(), hot.end()), (std::vector<float>{0, 1, 1, 0, 0, 1, 0, 0, 0, 1}));
  const std::vector<std::int64_t> outside{1, 4};
  EXPECT_THROW(static_cast<void>(several.encode(ConstRows(std::span(outside), 2), memory)),
               troupe::InvalidArgumentError);

  const auto image = ObservationEncoder::make(kImage).value();
  EXPECT_EQ(image.shape(), (std::vector<std::size_t>{8, 8, 3}));
  std::vector<std::uint8_t> pixels(2 * 3 * 64);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
  const auto turned = image.encode(ConstRows(std::span<const std::uint8_t>(pixels), 3 * 64), memory);
  for (std::size_t row : {0u, 1u})
    for (std::size_t pixel = 0; pixel < 64; ++pixel)
      for (std::size_t c = 0; c < 3; ++c)
        ASSERT_FLOAT_EQ(turned[row * 192 + pixel * 3 + c],
                        static_cast<float>(pixels[row * 192 + c * 64 + pixel]) / 255.0f);

  const auto floats = ObservationEncoder::make(kRow).value();
  const std::vector<float> as_it_is{1, 2, 3, 4};
  EXPECT_EQ(floats.encode(ConstRows(std::span(as_it_is), 4), memory).data(), as_it_is.data()) << "no copy";
}

}  // namespace
