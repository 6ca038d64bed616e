// Matrix products against double, in every form that forward and backward passes use.
#include <cstring>
#include <type_traits>

#include "kernels/cpu/linear/matmul.h"
#include "tests/kernels/support.h"

namespace {

using namespace kernels_test;
using namespace troupe::kernels;

struct Case {
  MatmulShape shape;
  bool a_transposed, b_transposed;
  std::size_t extra;  // added to every stride
};

std::vector<Case> cases() {
  std::vector<Case> out;
  std::vector<MatmulShape> shapes{{64, 1, 300}, {300, 33, 17}, {13, 129, 257}, {241, 32, 513}, {25, 530, 40},
                                  {29, 70, 1024}, {5, 3100, 20}, {270, 40, 800}, {700, 70, 1040}, {1600, 66, 24}};
  for (std::size_t a : {1, 2, 12, 15, 17, 33}) {
    for (std::size_t b : {1, 15, 16, 17, 33, 65}) shapes.push_back({a, b, 1 + (a * 31 + b) % 48});
  }
  for (const MatmulShape& shape : shapes) {
    for (bool a : {false, true}) {
      for (bool b : {false, true}) out.push_back({shape, a, b, (shape.m + shape.n) % 2 * 3});
    }
  }
  return out;
}

class MatmulKernel : public testing::TestWithParam<Isa> {};

TEST_P(MatmulKernel, MM5_AVectorGivesWhatOneColumnGives) {
  std::mt19937_64 random(6);
  for (const std::size_t m : {1u, 3u, 4u, 257u}) {
    for (const std::size_t k : {1u, 4u, 16u, 33u, 256u}) {
      const auto a = random_values<float>(random, m * k, 1), x = random_values<float>(random, k, 1);
      const auto bias = random_values<float>(random, m, 1);
      const auto wide_a = widen(a), wide_x = widen(x), wide_bias = widen(bias);
      std::vector<float> y(m + 1, 77.0f);
      std::vector<double> want(m);
      matvec<float>(GetParam(), m, k, a.data(), x.data(), bias.data(), y.data());
      matvec<double>(GetParam(), m, k, wide_a.data(), wide_x.data(), wide_bias.data(), want.data());
      for (std::size_t i = 0; i < m; ++i) {
        double sum = wide_bias[i];
        for (std::size_t p = 0; p < k; ++p) sum += wide_a[i * k + p] * wide_x[p];
        ASSERT_NEAR(want[i], sum, 1e-12);
        ASSERT_NEAR(y[i], sum, 1e-4) << m << "x" << k;
      }
      EXPECT_EQ(y.back(), 77.0f) << "written outside";
    }
  }
}

TEST_P(MatmulKernel, EveryFormAndAwkwardShapeMatchesDouble) {
  std::mt19937_64 random(5);
  for (const Case& c : cases()) {
    const auto& [m, n, k] = c.shape;
    SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k << " " << c.a_transposed << c.b_transposed);
    const std::size_t a_stride = (c.a_transposed ? m : k) + c.extra, b_stride = (c.b_transposed ? k : n) + c.extra;
    const std::size_t c_stride = n + c.extra;
    const auto a = random_values<float>(random, a_stride * (c.a_transposed ? k : m), 1);
    const auto b = random_values<float>(random, b_stride * (c.b_transposed ? n : k), 1);
    const auto bias = random_values<float>(random, n, 1);
    const auto before = random_values<float>(random, c_stride * m, 1);
    const auto residual = random_values<float>(random, c_stride * m, 1);
    const auto wide_a = widen(a), wide_b = widen(b), wide_bias = widen(bias), wide_residual = widen(residual);
    PackedFactor<float> packed;
    packed.pack(GetParam(), k, n, {b.data(), b_stride, c.b_transposed});
    for (int variant = 0; variant < 6; ++variant) {
      SCOPED_TRACE(testing::Message() << "variant " << variant);
      auto got = before;
      auto want = widen(before);
      const auto result = [&](auto& memory, const auto* bias_row, const auto* residual) {
        return MatmulResult<std::remove_cvref_t<decltype(memory[0])>>{.data = memory.data(),
                                                                      .stride = c_stride,
                                                                      .accumulate = variant % 3 == 1,
                                                                      .bias = variant / 3 == 1 ? bias_row : nullptr,
                                                                      .residual = variant % 3 == 2 ? residual
                                                                                                   : nullptr};
      };
      const MatmulFactor<float> factor_a{a.data(), a_stride, c.a_transposed};
      matmul<float>(GetParam(), c.shape, factor_a, {b.data(), b_stride, c.b_transposed},
                    result(got, bias.data(), residual.data()));
      matmul<double>(GetParam(), c.shape, {wide_a.data(), a_stride, c.a_transposed},
                     {wide_b.data(), b_stride, c.b_transposed}, result(want, wide_bias.data(), wide_residual.data()));
      ASSERT_LT(deviation(got, want, 1.0), 3e-6);
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = n; j < c_stride; ++j) ASSERT_EQ(got[i * c_stride + j], before[i * c_stride + j]) << "gap";
      }
      auto again = before;  // MM-4
      matmul<float>(GetParam(), c.shape, factor_a, packed, result(again, bias.data(), residual.data()));
      ASSERT_EQ(std::memcmp(again.data(), got.data(), got.size() * sizeof(float)), 0) << "packed";
    }
  }
}

TEST_P(MatmulKernel, MM2_RowsDoNotInfluenceEachOther) {
  std::mt19937_64 random(6);
  const std::size_t k = 300, n = 70;
  const auto a = random_values<float>(random, 31 * k, 1), b = random_values<float>(random, n * k, 1);
  std::vector<float> all(31 * n), one(n);
  matmul<float>(GetParam(), {31, n, k}, {a.data(), k}, {b.data(), k, true}, {all.data(), n});
  for (std::size_t i = 0; i < 31; ++i) {
    matmul<float>(GetParam(), {1, n, k}, {a.data() + i * k, k}, {b.data(), k, true}, {one.data(), n});
    ASSERT_TRUE(std::equal(one.begin(), one.end(), all.begin() + static_cast<std::ptrdiff_t>(i * n))) << i;
  }
}

TEST_P(MatmulKernel, MM4_APackedFactorIsPackedAgainForAnother) {
  std::mt19937_64 random(8);
  PackedFactor<float> packed;
  for (const MatmulShape& s : {MatmulShape{9, 130, 300}, MatmulShape{9, 20, 500}, MatmulShape{3, 1, 1}}) {
    const auto a = random_values<float>(random, s.m * s.k, 1), b = random_values<float>(random, s.n * s.k, 1);
    std::vector<float> want(s.m * s.n), got(want.size());
    packed.pack(GetParam(), s.k, s.n, {b.data(), s.n});
    matmul<float>(GetParam(), s, {a.data(), s.k}, {b.data(), s.n}, {.data = want.data(), .stride = s.n});
    matmul<float>(GetParam(), s, {a.data(), s.k}, packed, {.data = got.data(), .stride = s.n});
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
    // Packed for one set, used with another: the source serves.
    const Isa other = GetParam() == Isa::kReference ? best_isa() : Isa::kReference;
    matmul<float>(other, s, {a.data(), s.k}, {b.data(), s.n}, {.data = want.data(), .stride = s.n});
    matmul<float>(other, s, {a.data(), s.k}, packed, {.data = got.data(), .stride = s.n});
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
  }
}

TEST_P(MatmulKernel, LinearLayerAndItsGradientsMatchDouble) {
  std::mt19937_64 random(7);
  for (const LinearShape& s : {LinearShape{1, 1, 1}, LinearShape{33, 17, 65}, LinearShape{96, 128, 40}}) {
    const auto x = random_values<float>(random, s.rows * s.in, 1), w = random_values<float>(random, s.out * s.in, 1),
               b = random_values<float>(random, s.out, 1), dy = random_values<float>(random, s.rows * s.out, 1);
    const auto wx = widen(x), ww = widen(w), wb = widen(b), wdy = widen(dy);
    std::vector<float> y(s.rows * s.out), dx(x.size()), dw(w.size(), 1.0f), db(b.size(), 1.0f);
    std::vector<double> wide_y(y.size()), wide_dx(x.size()), wide_dw(w.size(), 1.0), wide_db(b.size(), 1.0);
    linear_forward<float>(GetParam(), s, x.data(), w.data(), b.data(), y.data());
    linear_backward<float>(GetParam(), s, x.data(), w.data(), dy.data(), {dx.data(), dw.data(), db.data()});
    linear_forward<double>(GetParam(), s, wx.data(), ww.data(), wb.data(), wide_y.data());
    linear_backward<double>(GetParam(), s, wx.data(), ww.data(), wdy.data(),
                            {wide_dx.data(), wide_dw.data(), wide_db.data()});
    EXPECT_LT(deviation(y, wide_y), 2e-6);
    EXPECT_LT(deviation(dx, wide_dx), 2e-6);
    EXPECT_LT(deviation(dw, wide_dw), 2e-6);
    EXPECT_LT(deviation(db, wide_db), 2e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, MatmulKernel, testing::ValuesIn(supported()), name_of_isa);

}  // namespace
