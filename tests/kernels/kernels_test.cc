// Every version of every kernel against the double reference, on random data and awkward sizes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/mlp/mlp.h"
#include "kernels/cpu/optimizer/optimizer.h"

namespace {

using namespace troupe::kernels;

std::vector<Isa> supported() {
  std::vector<Isa> out;
  for (Isa isa : kAllIsas) {
    if (isa_supported(isa)) out.push_back(isa);
  }
  return out;
}

template <class T>
std::vector<T> random_values(std::mt19937_64& random, std::size_t count, double scale) {
  std::vector<T> out(count);
  // Rounded to float, so that float and double versions see the same numbers.
  for (T& v : out)
    v = static_cast<T>(static_cast<float>(scale * (static_cast<double>(random() >> 11) * 0x1p-52 - 1.0)));
  return out;
}

std::vector<double> widen(const std::vector<float>& in) { return {in.begin(), in.end()}; }

// Largest difference, relative to the largest value of the reference.
double deviation(const std::vector<float>& got, const std::vector<double>& want) {
  double largest = 1e-30;
  double worst = 0;
  for (double w : want) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : std::numeric_limits<double>::infinity();
  }
  return worst / largest;
}

struct MlpCase {
  MlpShape shape;
  std::size_t batch;
};

std::vector<MlpCase> awkward_cases() {
  std::vector<MlpCase> cases;
  for (std::size_t batch : {1, 2, 15, 16, 17, 31, 32, 33, 64, 100, 257}) {
    cases.push_back({{4, 64, 64, 2}, batch});
    cases.push_back({{4, 64, 64, 1}, batch});
  }
  for (std::size_t size : {1, 2, 3, 5, 7, 9, 15, 17, 33, 65}) {
    cases.push_back({{size, 64, 64, 2}, 33});
    cases.push_back({{4, size, 64, 2}, 33});
    cases.push_back({{4, 64, size, 2}, 33});
    cases.push_back({{4, 64, 64, size}, 33});
    cases.push_back({{size, size, size, size}, size});
  }
  return cases;
}

class EveryIsa : public testing::TestWithParam<Isa> {};

TEST_P(EveryIsa, MlpForwardAndBackwardMatchDouble) {
  std::mt19937_64 random(7);
  for (const MlpCase& c : awkward_cases()) {
    SCOPED_TRACE(testing::Message() << c.shape.inputs << "-" << c.shape.hidden1 << "-" << c.shape.hidden2 << "-"
                                    << c.shape.outputs << " batch " << c.batch);
    const auto params = random_values<float>(random, c.shape.parameter_count(), 0.5);
    const auto x = random_values<float>(random, c.batch * c.shape.inputs, 2.0);
    const auto dy = random_values<float>(random, c.batch * c.shape.outputs, 1.0);
    MlpTape<float> tape(c.shape);
    std::vector<float> y(c.batch * c.shape.outputs, NAN);
    std::vector<float> grads(c.shape.parameter_count(), NAN);
    mlp_forward<float>(GetParam(), params, x, tape, y);
    mlp_backward<float>(GetParam(), params, dy, tape, grads);

    MlpTape<double> wide_tape(c.shape);
    std::vector<double> wide_y(y.size());
    std::vector<double> wide_grads(grads.size());
    mlp_forward<double>(Isa::kReference, widen(params), widen(x), wide_tape, wide_y);
    mlp_backward<double>(Isa::kReference, widen(params), widen(dy), wide_tape, wide_grads);
    EXPECT_LT(deviation(y, wide_y), 4e-6);
    EXPECT_LT(deviation(grads, wide_grads), 6e-6);
  }
}

TEST_P(EveryIsa, KM4_TapeUsedForALargerBatchBeforeGivesTheSameBits) {
  std::mt19937_64 random(8);
  const MlpShape shape{4, 64, 64, 2};
  const auto params = random_values<float>(random, shape.parameter_count(), 0.5);
  const auto large = random_values<float>(random, 4 * 300, 2.0);
  const auto small = random_values<float>(random, 4 * 19, 2.0);
  const auto dy = random_values<float>(random, 2 * 19, 1.0);
  const auto gradients = [&](MlpTape<float>& tape) {
    std::vector<float> y(2 * 19);
    std::vector<float> grads(shape.parameter_count());
    mlp_forward<float>(GetParam(), params, small, tape, y);
    mlp_backward<float>(GetParam(), params, dy, tape, grads);
    return grads;
  };
  MlpTape<float> used(shape);
  std::vector<float> y(2 * 300);
  mlp_forward<float>(GetParam(), params, large, used, y);
  MlpTape<float> fresh(shape);
  EXPECT_EQ(gradients(used), gradients(fresh));
}

TEST_P(EveryIsa, KT1_TanhStaysWithinItsErrorBound) {
  std::vector<float> in;
  for (double x = -12; x <= 12; x += 1e-4) in.push_back(static_cast<float>(x));
  for (int exponent = -126; exponent < 127; ++exponent) {
    for (float mantissa : {1.0f, 1.25f, 1.999f}) {
      in.push_back(std::ldexp(mantissa, exponent));
      in.push_back(-std::ldexp(mantissa, exponent));
    }
  }
  std::vector<float> out(in.size());
  tanh_array(GetParam(), in, out);
  double worst_absolute = 0;
  double worst_ulps = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double want = std::tanh(static_cast<double>(in[i]));
    const float rounded = std::abs(static_cast<float>(want));
    const double ulp = static_cast<double>(std::nextafter(rounded, 2.0f)) - static_cast<double>(rounded);
    const double difference = std::abs(static_cast<double>(out[i]) - want);
    ASSERT_LE(std::abs(out[i]), 1.0f) << in[i];
    worst_absolute = std::max(worst_absolute, difference);
    if (std::abs(in[i]) >= 1e-30f) worst_ulps = std::max(worst_ulps, difference / ulp);
  }
  RecordProperty("worst_absolute", std::to_string(worst_absolute * 1e7) + "e-7");
  RecordProperty("worst_ulps", std::to_string(worst_ulps));
  EXPECT_LE(worst_absolute, 4e-7);
  EXPECT_LE(worst_ulps, 6.0);
}

TEST_P(EveryIsa, KT2_TanhKeepsSignsOfZeroAndNaN) {
  const std::vector<float> in{0.0f, -0.0f, NAN, INFINITY, -INFINITY};
  std::vector<float> out(in.size());
  tanh_array(GetParam(), in, out);
  EXPECT_FALSE(std::signbit(out[0]));
  EXPECT_TRUE(std::signbit(out[1]));
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_NEAR(out[3], 1.0f, 4e-7);
  EXPECT_NEAR(out[4], -1.0f, 4e-7);
}

TEST_P(EveryIsa, KO7_MomentsEndAtZeroAndTheThreadKeepsItsDenormals) {
  constexpr std::size_t kCount = 37;  // whole registers, and a rest
  const std::vector<float> none(kCount, 0.0f);
  std::vector<float> p(kCount, 1.0f), m(kCount, 1.2e-38f), v(kCount, 1.2e-38f), buffer(kCount, 1.2e-38f);
  for (std::int64_t step = 2; step < 300; ++step) {
    adam_step<float>(GetParam(), {p, none, m, v}, step, 1.0, {});
    sgd_step<float>(GetParam(), p, none, buffer, step, 1.0, {.momentum = 0.9});
  }
  EXPECT_EQ(m, none);
  EXPECT_EQ(v, none);
  EXPECT_EQ(buffer, none);
  volatile float small = std::numeric_limits<float>::min();
  EXPECT_EQ(std::fpclassify(small * 0.5f), FP_SUBNORMAL);
}

TEST_P(EveryIsa, AdamMatchesDoubleOverManySteps) {
  std::mt19937_64 random(9);
  for (std::size_t count : {1, 7, 15, 16, 17, 33, 1000}) {
    auto params = random_values<float>(random, count, 1.0);
    auto wide_params = widen(params);
    std::vector<float> m(count), v(count);
    std::vector<double> wide_m(count), wide_v(count);
    const AdamOptions options{.learning_rate = 1e-2, .epsilon = 1e-5};
    for (int step = 1; step <= 20; ++step) {
      const auto grads = random_values<float>(random, count, 0.3);
      const auto wide_grads = widen(grads);
      adam_step<float>(GetParam(), {params, grads, m, v}, step, 0.5, options);
      adam_step<double>(Isa::kReference, {wide_params, wide_grads, wide_m, wide_v}, step, 0.5, options);
    }
    EXPECT_LT(deviation(params, wide_params), 3e-6) << count;
  }
}

TEST_P(EveryIsa, KO6_TargetsMoveByTheirShareOrBecomeTheValues) {
  std::mt19937_64 random(11);
  for (std::size_t count : {1, 7, 15, 16, 17, 33, 1000}) {
    auto targets = random_values<float>(random, count, 1.0);
    const auto values = random_values<float>(random, count, 1.0);
    auto wide_targets = widen(targets);
    const auto wide_values = widen(values);
    targets.push_back(77);
    for (int i = 0; i < 10; ++i) {
      move_towards<float>(GetParam(), std::span(targets).first(count), values, 0.005);
      move_towards<double>(GetParam(), wide_targets, wide_values, 0.005);
    }
    EXPECT_LT(deviation(targets, wide_targets), 1e-6) << count;
    move_towards<float>(GetParam(), std::span(targets).first(count), values, 1);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), targets.begin()));
    EXPECT_EQ(targets.back(), 77.0f) << "written outside";
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryIsa, testing::ValuesIn(supported()),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

// The double reference itself is proven by finite differences (and by the recorded cases of tests/rl).
TEST(MlpReference, GradientsAreFiniteDifferences) {
  std::mt19937_64 random(10);
  const MlpShape shape{3, 5, 4, 2};
  auto params = random_values<double>(random, shape.parameter_count(), 0.7);
  const auto x = random_values<double>(random, 6 * 3, 1.0);
  const auto dy = random_values<double>(random, 6 * 2, 1.0);
  MlpTape<double> tape(shape);
  std::vector<double> y(6 * 2), grads(params.size());
  const auto loss = [&] {
    mlp_forward<double>(Isa::kReference, params, x, tape, y);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  };
  loss();
  mlp_backward<double>(Isa::kReference, params, dy, tape, grads);
  for (std::size_t i = 0; i < params.size(); ++i) {
    const double kept = std::exchange(params[i], params[i] + 1e-6);
    const double above = loss();
    params[i] = kept - 1e-6;
    const double below = loss();
    params[i] = kept;
    EXPECT_NEAR(grads[i], (above - below) / 2e-6, 1e-8) << i;
  }
}

TEST(GlobalNorm, KO2_IsTheEuclideanNormAndKO3_ClipsToIt) {
  const std::vector<float> values(10'000, 0.5f);
  EXPECT_DOUBLE_EQ(global_norm<float>(values), 50.0);
  EXPECT_DOUBLE_EQ(global_norm<float>(std::span<const float>{}), 0.0);
  EXPECT_DOUBLE_EQ(clip_scale(0.1, 0.5), 1.0);
  EXPECT_NEAR(clip_scale(50.0, 0.5) * 50.0, 0.5, 1e-7);
}

TEST(Isa, KI2_ReferenceIsAlwaysThereAndBestIsSupported) {
  EXPECT_TRUE(isa_supported(Isa::kReference));
  EXPECT_TRUE(isa_supported(best_isa()));
}

}  // namespace
