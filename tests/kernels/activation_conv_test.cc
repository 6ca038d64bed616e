// ACT-1 to ACT-4 and CVL-1 to CVL-3: activations and convolutions of every version against double; convolution also
// against its definition.
#include "kernels/cpu/activation/activation.h"
#include "kernels/cpu/conv/conv.h"
#include "tests/kernels/support.h"

namespace {

using namespace kernels_test;
using namespace troupe::kernels;

class ActivationKernel : public testing::TestWithParam<Isa> {
 protected:
  std::mt19937_64 random_{5};
};

TEST_P(ActivationKernel, ForwardAndBackwardMatchDouble) {
  for (const Activation activation : {Activation::kTanh, Activation::kRelu}) {
    for (const std::size_t size : kAwkwardSizes) {
      const auto x = random_values<float>(random_, size, 4), dy = random_values<float>(random_, size, 1);
      const auto wx = widen(x), wdy = widen(dy);
      std::vector<float> y(size + 1, 77.0f), dx(size + 1, 77.0f);
      std::vector<double> wy(size), wdx(size);
      activation_forward<float>(GetParam(), activation, size, x.data(), y.data());
      activation_forward<double>(GetParam(), activation, size, wx.data(), wy.data());
      EXPECT_LE(deviation(y, wy), 4e-7);
      activation_backward<float>(GetParam(), activation, size, y.data(), dy.data(), dx.data());
      activation_backward<double>(GetParam(), activation, size, wy.data(), wdy.data(), wdx.data());
      EXPECT_LE(deviation(dx, wdx), 1e-6);
      EXPECT_EQ(y.back(), 77.0f) << "written outside";
      EXPECT_EQ(dx.back(), 77.0f) << "written outside";
      std::vector<float> in_place = x;
      activation_forward<float>(GetParam(), activation, size, in_place.data(), in_place.data());
      EXPECT_TRUE(std::equal(in_place.begin(), in_place.end(), y.begin())) << "ACT-2";
    }
  }
}

TEST_P(ActivationKernel, ACT4_UnitsAreTheArraysWithTheirBiases) {
  for (const Activation activation : {Activation::kTanh, Activation::kRelu}) {
    for (const std::size_t samples : {1u, 7u, 16u, 33u, 128u}) {
      const UnitShape shape{.units = 5, .samples = samples};
      const std::size_t size = shape.units * samples;
      const auto x = random_values<float>(random_, size, 2), bias = random_values<float>(random_, shape.units, 1);
      const auto slopes = random_values<float>(random_, size, 1);
      std::vector<float> y = x, dy = slopes, want(size), want_dx(size), dbias(shape.units, 3.0f);
      y.push_back(77), dy.push_back(77);
      unit_forward<float>(GetParam(), activation, shape, bias.data(), y.data());
      for (std::size_t i = 0; i < size; ++i) want[i] = x[i] + bias[i / samples];
      activation_forward<float>(GetParam(), activation, size, want.data(), want.data());
      EXPECT_TRUE(std::equal(want.begin(), want.end(), y.begin()));
      unit_backward<float>(GetParam(), activation, shape, y.data(), dy.data(), dbias.data());
      activation_backward<float>(GetParam(), activation, size, want.data(), slopes.data(), want_dx.data());
      EXPECT_TRUE(std::equal(want_dx.begin(), want_dx.end(), dy.begin()));
      EXPECT_EQ(y.back() + dy.back(), 2 * 77.0f) << "written outside";
      for (std::size_t u = 0; u < shape.units; ++u) {
        double sum = 3;  // added to
        for (std::size_t s = 0; s < samples; ++s) sum += static_cast<double>(want_dx[u * samples + s]);
        EXPECT_NEAR(dbias[u], sum, 1e-5);
      }
      dy.assign(slopes.begin(), slopes.end());
      unit_backward<float>(GetParam(), activation, shape, y.data(), dy.data(), nullptr);
      EXPECT_EQ(dy, want_dx);
    }
  }
}

TEST_P(ActivationKernel, NotANumberStaysOne) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), one = 1;
  for (const Activation activation : {Activation::kTanh, Activation::kRelu}) {
    float y = 0, dx = 0;
    activation_forward<float>(GetParam(), activation, 1, &nan, &y);
    EXPECT_TRUE(std::isnan(y));
    activation_backward<float>(GetParam(), Activation::kTanh, 1, &nan, &one, &dx);
    EXPECT_TRUE(std::isnan(dx));
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, ActivationKernel, testing::ValuesIn(supported()), name_of_isa);

const ConvShape kConvolutions[] = {
    {.batch = 1, .height = 3, .width = 3, .channels = 1, .filters = 1, .kernel = 3, .stride = 1},
    {.batch = 3, .height = 10, .width = 10, .channels = 4, .filters = 16, .kernel = 3, .stride = 1},
    {.batch = 2, .height = 9, .width = 7, .channels = 3, .filters = 5, .kernel = 4, .stride = 2},
    {.batch = 2, .height = 5, .width = 6, .channels = 2, .filters = 3, .kernel = 1, .stride = 3},
};

TEST(Convolution, IsWhatItsDefinitionSays) {
  std::mt19937_64 random(3);
  for (const ConvShape& s : kConvolutions) {
    const auto x = random_values<double>(random, s.batch * s.height * s.width * s.channels, 1);
    const auto w = random_values<double>(random, s.filters * s.patch_size(), 1);
    const auto bias = random_values<double>(random, s.filters, 1);
    std::vector<double> patches(s.patch_count()), y(s.patch_rows() * s.filters);
    conv2d_forward<double>(Isa::kReference, s, x.data(), w.data(), bias.data(), patches.data(), y.data());
    std::size_t at = 0;
    for (std::size_t b = 0; b < s.batch; ++b)
      for (std::size_t r = 0; r < s.out_height(); ++r)
        for (std::size_t c = 0; c < s.out_width(); ++c)
          for (std::size_t f = 0; f < s.filters; ++f) {
            double want = bias[f];
            for (std::size_t i = 0; i < s.kernel; ++i)
              for (std::size_t j = 0; j < s.kernel; ++j)
                for (std::size_t ch = 0; ch < s.channels; ++ch)
                  want += x[((b * s.height + r * s.stride + i) * s.width + c * s.stride + j) * s.channels + ch] *
                          w[((f * s.kernel + i) * s.kernel + j) * s.channels + ch];
            ASSERT_NEAR(y[at++], want, 1e-12);
          }
  }
}

// d(sum(y dy)) for a small change of each number, by the difference of two forward passes.
TEST(Convolution, GradientsMatchFiniteDifferences) {
  std::mt19937_64 random(4);
  for (const ConvShape& s : kConvolutions) {
    auto x = random_values<double>(random, s.batch * s.height * s.width * s.channels, 1);
    auto w = random_values<double>(random, s.filters * s.patch_size(), 1);
    auto bias = random_values<double>(random, s.filters, 1);
    const auto dy = random_values<double>(random, s.patch_rows() * s.filters, 1);
    std::vector<double> patches(s.patch_count()), y(dy.size());
    const auto loss = [&] {
      conv2d_forward<double>(Isa::kReference, s, x.data(), w.data(), bias.data(), patches.data(), y.data());
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
      return sum;
    };
    loss();
    std::vector<double> dx(x.size(), 9.0), dw(w.size(), 1.0), dbias(bias.size(), 1.0), dpatches(s.patch_count());
    conv2d_backward<double>(
        Isa::kReference, s, patches.data(), w.data(), dy.data(),
        {.dx = dx.data(), .dw = dw.data(), .dbias = dbias.data(), .dpatches = dpatches.data()});
    const auto expect_gradient = [&](std::vector<double>& numbers, const std::vector<double>& gradient, double added) {
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const double kept = numbers[i];
        numbers[i] = kept + 1e-5;
        const double above = loss();
        numbers[i] = kept - 1e-5;
        const double below = loss();
        numbers[i] = kept;
        ASSERT_NEAR(gradient[i] - added, (above - below) / 2e-5, 1e-7) << i;
      }
    };
    expect_gradient(x, dx, 0);  // CVL-3: written
    expect_gradient(w, dw, 1);  // added to
    expect_gradient(bias, dbias, 1);
  }
}

class ConvKernel : public testing::TestWithParam<Isa> {};

TEST_P(ConvKernel, MatchesDouble) {
  std::mt19937_64 random(6);
  for (const ConvShape& s : kConvolutions) {
    const auto x = random_values<float>(random, s.batch * s.height * s.width * s.channels, 1);
    const auto w = random_values<float>(random, s.filters * s.patch_size(), 1);
    const auto dy = random_values<float>(random, s.patch_rows() * s.filters, 1);
    const auto run = [&]<class T>(Isa isa, const std::vector<T>& in, const std::vector<T>& weights,
                                  const std::vector<T>& slope, std::vector<T>& y, std::vector<T>& dx,
                                  std::vector<T>& dw) {
      std::vector<T> patches(s.patch_count()), dpatches(s.patch_count()), bias(s.filters, T(0.5)), dbias(s.filters);
      y.resize(slope.size()), dx.resize(in.size()), dw.resize(weights.size());
      conv2d_forward<T>(isa, s, in.data(), weights.data(), bias.data(), patches.data(), y.data());
      conv2d_backward<T>(isa, s, patches.data(), weights.data(), slope.data(),
                         {.dx = dx.data(), .dw = dw.data(), .dbias = dbias.data(), .dpatches = dpatches.data()});
    };
    std::vector<float> y, dx, dw;
    std::vector<double> wy, wdx, wdw;
    run(GetParam(), x, w, dy, y, dx, dw);
    run(GetParam(), widen(x), widen(w), widen(dy), wy, wdx, wdw);
    EXPECT_LE(deviation(y, wy), 1e-6);
    EXPECT_LE(deviation(dx, wdx), 1e-6);
    EXPECT_LE(deviation(dw, wdw), 2e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, ConvKernel, testing::ValuesIn(supported()), name_of_isa);

}  // namespace
