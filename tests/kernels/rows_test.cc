// Row kernels, attention and scans of every version against double, on random data, awkward sizes and unaligned memory.
#include <cstring>
#include <memory>

#include "kernels/cpu/linear/attention.h"
#include "kernels/cpu/rows/embedding.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "kernels/cpu/rows/rows.h"
#include "kernels/cpu/scans/scans.h"
#include "tests/kernels/support.h"

namespace {

using namespace kernels_test;
using namespace troupe::kernels;

// A copy that starts one float after an aligned address, with a guard behind it.
class Shifted {
 public:
  explicit Shifted(const std::vector<float>& values) : memory_(values.size() + 2, 77.0f), size_(values.size()) {
    std::copy(values.begin(), values.end(), memory_.begin() + 1);
  }
  explicit Shifted(std::size_t size) : Shifted(std::vector<float>(size)) {}
  float* data() { return memory_.data() + 1; }
  std::span<float> values() { return {data(), size_}; }
  [[nodiscard]] bool intact() const { return memory_.front() == 77.0f && memory_.back() == 77.0f; }

 private:
  std::vector<float> memory_;
  std::size_t size_;
};

struct Compared {
  Shifted got;
  std::vector<double> want;
  explicit Compared(std::size_t size) : got(size), want(size) {}
};

void expect_close(Compared& c, double tolerance, const char* what, double floor = 1e-30) {
  EXPECT_TRUE(c.got.intact()) << what << ": written outside";
  EXPECT_LE(deviation(c.got.values(), c.want, floor), tolerance) << what;
}

class RowsKernel : public testing::TestWithParam<Isa> {
 protected:
  std::mt19937_64 random_{11};
};

const RowsShape kShapes[] = {{1, 1},  {3, 2},  {2, 7},    {3, 8},   {2, 15},  {2, 16},        {2, 17},
                             {5, 33}, {2, 65}, {3, 128}, {2, 384}, {1, 4099}, {1, 1'000'003}};

TEST_P(RowsKernel, NormsMatchDouble) {
  for (const RowsShape& s : kShapes) {
    SCOPED_TRACE(testing::Message() << s.rows << "x" << s.columns);
    const std::size_t size = s.rows * s.columns;
    const auto x = random_values<float>(random_, size, 2), w = random_values<float>(random_, s.columns, 1),
               b = random_values<float>(random_, s.columns, 1), dy = random_values<float>(random_, size, 1);
    const auto wx = widen(x), ww = widen(w), wb = widen(b), wdy = widen(dy);
    Shifted sx(x), sw(w), sb(b), sdy(dy);
    for (bool rms : {false, true}) {
      Compared y(size), mean(s.rows), rstd(s.rows), dx(size), dw(s.columns), db(s.columns);
      const NormStatistics<float> got{mean.got.data(), rstd.got.data()};
      const NormStatistics<double> want{mean.want.data(), rstd.want.data()};
      if (rms) {
        rmsnorm_forward<float>(GetParam(), s, sx.data(), sw.data(), y.got.data(), got.rstd);
        rmsnorm_backward<float>(GetParam(), s, sx.data(), sw.data(), got.rstd, sdy.data(), dx.got.data(),
                                dw.got.data());
        rmsnorm_forward<double>(GetParam(), s, wx.data(), ww.data(), y.want.data(), want.rstd);
        rmsnorm_backward<double>(GetParam(), s, wx.data(), ww.data(), want.rstd, wdy.data(), dx.want.data(),
                                 dw.want.data());
      } else {
        layernorm_forward<float>(GetParam(), s, sx.data(), sw.data(), sb.data(), y.got.data(), got);
        layernorm_backward<float>(GetParam(), s, sx.data(), sw.data(), got, sdy.data(), dx.got.data(), dw.got.data(),
                                  db.got.data());
        layernorm_forward<double>(GetParam(), s, wx.data(), ww.data(), wb.data(), y.want.data(), want);
        layernorm_backward<double>(GetParam(), s, wx.data(), ww.data(), want, wdy.data(), dx.want.data(),
                                   dw.want.data(), db.want.data());
      }
      // A sum of a million terms in the float reference has one chain.
      const double tolerance = s.columns > 10'000 ? 2e-4 : 3e-6;
      expect_close(y, tolerance, "y", 1);
      expect_close(rstd, tolerance, "rstd");
      expect_close(dx, tolerance, "dx", 1);
      expect_close(dw, tolerance, "dw", 1);
      expect_close(db, tolerance, "db", 1);
    }
  }
}

double in_ulps(float got, double want) {
  const float rounded = static_cast<float>(want);
  const double ulp = static_cast<double>(std::nextafter(std::abs(rounded), INFINITY)) - std::abs(rounded);
  return std::abs(static_cast<double>(got) - want) / ulp;
}

TEST_P(RowsKernel, KE1_KE2_Exponentials) {
  const auto& version = detail::rows_version<float>(GetParam());
  std::vector<float> x, y;
  for (int i = -87'000; i <= 88'000; i += 7) x.push_back(static_cast<float>(i) * 1e-3f);
  y.resize(x.size());
  version.exponentials(x.size(), x.data(), y.data(), 1, 0);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, in_ulps(y[i], std::exp(static_cast<double>(x[i]))));
  EXPECT_LE(worst, 2.0);
  if (GetParam() == Isa::kReference) return;
  for (std::size_t size : {4, 8, 64, 67}) {  // alone, and in whole groups of registers
    std::vector<float> edge(size, -87.34f), out(size);
    edge[1] = -INFINITY, edge[2] = NAN, edge[3] = 1000;
    version.exponentials(size, edge.data(), out.data(), 1, 0);
    EXPECT_EQ(out[0], 0.0f);
    EXPECT_EQ(out[1], 0.0f);
    EXPECT_TRUE(std::isnan(out[2]));
    EXPECT_TRUE(std::isfinite(out[3]) && out[3] > 2e38f) << out[3];
  }
}

TEST_P(RowsKernel, TheLogarithmOfASumIsThatOfDouble) {
  const auto& version = detail::rows_version<float>(GetParam());
  for (std::size_t n : {1, 2, 3, 16, 17, 65, 1000, 50'257}) {
    const std::vector<float> x(n, 0.0f);
    std::vector<float> y(n);
    float lse = NAN;
    version.softmax(1, n, x.data(), y.data(), 1, 1, &lse);
    const double want = std::log(static_cast<double>(n));
    EXPECT_LE(std::abs(lse - want), 3e-7 * std::max(want, 1e-30)) << n;
    EXPECT_EQ(version.log_sum(n, x.data()), lse) << n;
  }
}

TEST_P(RowsKernel, RW2_ARowHasTheSameBitsInAnyNumberOfRows) {
  for (std::size_t columns : {5, 65, 128, 1500}) {
    constexpr std::size_t kRows = 11;
    const auto x = random_values<float>(random_, kRows * columns, 3), w = random_values<float>(random_, columns, 1);
    const auto b = random_values<float>(random_, columns, 1), dy = random_values<float>(random_, kRows * columns, 1);
    std::vector<float> all(x.size()), one(x.size()), statistics(4 * kRows), dw(4 * columns);
    const auto same = [&](const char* what) {
      EXPECT_EQ(std::memcmp(all.data(), one.data(), all.size() * sizeof(float)), 0) << what << " " << columns;
    };
    layernorm_forward<float>(GetParam(), {kRows, columns}, x.data(), w.data(), b.data(), all.data(),
                             {statistics.data(), statistics.data() + kRows});
    for (std::size_t r = 0; r < kRows; ++r)
      layernorm_forward<float>(GetParam(), {1, columns}, x.data() + r * columns, w.data(), b.data(),
                               one.data() + r * columns,
                               {statistics.data() + 2 * kRows + r, statistics.data() + 3 * kRows + r});
    same("layernorm");
    float* const sums = dw.data();
    layernorm_backward<float>(GetParam(), {kRows, columns}, x.data(), w.data(),
                              {statistics.data(), statistics.data() + kRows}, dy.data(), all.data(), sums,
                              sums + columns);
    for (std::size_t r = 0; r < kRows; ++r)
      layernorm_backward<float>(GetParam(), {1, columns}, x.data() + r * columns, w.data(),
                                {statistics.data() + r, statistics.data() + kRows + r}, dy.data() + r * columns,
                                one.data() + r * columns, sums + 2 * columns, sums + 3 * columns);
    same("layernorm's gradient");
    EXPECT_EQ(std::memcmp(sums, sums + 2 * columns, 2 * columns * sizeof(float)), 0) << "parameters, " << columns;
    softmax_forward<float>(GetParam(), {kRows, columns}, x.data(), nullptr, all.data());
    for (std::size_t r = 0; r < kRows; ++r)
      softmax_forward<float>(GetParam(), {1, columns}, x.data() + r * columns, nullptr, one.data() + r * columns);
    same("softmax");
  }
}

TEST_P(RowsKernel, WhatIsCalculatedAgainHasTheBitsOfForward) {
  for (const RowsShape& s : kShapes) {
    SCOPED_TRACE(testing::Message() << s.rows << "x" << s.columns);
    const std::size_t size = s.rows * s.columns;
    auto x = random_values<float>(random_, size, 40);
    if (size > 100) x[7] = 1e12f, x[8] = -1e12f, x[9] = NAN, x[50] = -INFINITY;
    const auto w = random_values<float>(random_, s.columns, 1), b = random_values<float>(random_, s.columns, 1);
    const auto dy = random_values<float>(random_, size, 1);
    const auto same = [](Shifted& got, Shifted& want) {
      return got.intact() && std::memcmp(got.data(), want.data(), got.values().size_bytes()) == 0;
    };
    Shifted y(size), again(size), dx(size), dx_again(size);
    std::vector<float> mean(s.rows), rstd(s.rows);
    layernorm_forward<float>(GetParam(), s, x.data(), w.data(), b.data(), y.data(), {mean.data(), rstd.data()});
    layernorm_again<float>(GetParam(), s, x.data(), w.data(), b.data(), {mean.data(), rstd.data()}, again.data());
    EXPECT_TRUE(same(again, y)) << "layernorm";
    gelu_forward<float>(GetParam(), size, x.data(), y.data());
    gelu_backward<float>(GetParam(), size, x.data(), dy.data(), dx.data());
    std::copy(dy.begin(), dy.end(), dx_again.data());
    gelu_backward_again<float>(GetParam(), size, x.data(), dx_again.data(), dx_again.data(), again.data());
    EXPECT_TRUE(same(again, y)) << "gelu";
    EXPECT_TRUE(same(dx_again, dx)) << "gelu's gradient";
  }
}

TEST_P(RowsKernel, LayernormBackwardAddsItsResidual) {
  const RowsShape s{3, 37};
  const std::size_t size = s.rows * s.columns;
  const auto x = random_values<float>(random_, size, 2), w = random_values<float>(random_, s.columns, 1),
             dy = random_values<float>(random_, size, 1), round = random_values<float>(random_, size, 1);
  std::vector<float> y(size), mean(s.rows), rstd(s.rows), alone(size), dw(s.columns), db(s.columns), onto = round;
  layernorm_forward<float>(GetParam(), s, x.data(), w.data(), w.data(), y.data(), {mean.data(), rstd.data()});
  layernorm_backward<float>(GetParam(), s, x.data(), w.data(), {mean.data(), rstd.data()}, dy.data(), alone.data(),
                            dw.data(),
                            db.data());
  layernorm_backward<float>(GetParam(), s, x.data(), w.data(), {mean.data(), rstd.data()}, dy.data(), onto.data(),
                            dw.data(),
                            db.data(), onto.data());
  // the sum may be rounded once
  for (std::size_t i = 0; i < size; ++i) EXPECT_NEAR(onto[i], round[i] + alone[i], 2e-6) << i;
}

TEST_P(RowsKernel, SoftmaxAndCrossEntropyMatchDouble) {
  for (const RowsShape& s : kShapes) {
    SCOPED_TRACE(testing::Message() << s.rows << "x" << s.columns);
    const std::size_t size = s.rows * s.columns;
    const auto x = random_values<float>(random_, size, 8), dy = random_values<float>(random_, size, 1);
    const auto wx = widen(x), wdy = widen(dy);
    std::vector<std::int32_t> targets(s.rows);
    for (std::size_t r = 0; r < s.rows; ++r)
      targets[r] = r % 3 == 2 ? -1 : static_cast<std::int32_t>(random_() % s.columns);
    Shifted sx(x), sdy(dy);
    Compared y(size), dx(size), loss(s.rows), dlogits(size);
    softmax_forward<float>(GetParam(), s, sx.data(), nullptr, y.got.data());
    softmax_backward<float>(GetParam(), s, y.got.data(), sdy.data(), dx.got.data());
    const auto got = cross_entropy<float>(GetParam(), s, sx.data(), targets.data(),
                                          {loss.got.data(), dlogits.got.data(), 10.0});
    softmax_forward<double>(GetParam(), s, wx.data(), nullptr, y.want.data());
    softmax_backward<double>(GetParam(), s, y.want.data(), wdy.data(), dx.want.data());
    const auto want = cross_entropy<double>(GetParam(), s, wx.data(), targets.data(),
                                            {loss.want.data(), dlogits.want.data(), 10.0});
    EXPECT_EQ(got.counted, want.counted);
    const double tolerance = s.columns > 10'000 ? 2e-3 : s.columns > 1000 ? 1e-5 : 3e-6;
    EXPECT_NEAR(got.loss_sum, want.loss_sum, tolerance * (1 + std::abs(want.loss_sum)));
    expect_close(y, tolerance, "y");
    expect_close(dx, tolerance, "dx", 1e-3);
    expect_close(loss, tolerance, "loss", 1);
    expect_close(dlogits, tolerance, "dlogits");
  }
}

TEST_P(RowsKernel, KE2_SoftmaxOfInfinitiesAndFarValuesIsExact) {
  std::vector<float> x(40, -INFINITY), y(40);
  x[3] = 1e30f;
  x[39] = 1e30f;
  softmax_forward<float>(GetParam(), {1, 40}, x.data(), nullptr, y.data());
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(y[i], i == 3 || i == 39 ? 0.5f : 0.0f) << i;
}

TEST_P(RowsKernel, RW5_NaNStaysInItsRow) {
  std::vector<float> x(3 * 33, 1.0f), y(x.size()), w(33, 1.0f), b(33), mean(3), rstd(3);
  x[33 + 5] = NAN;
  const auto check = [&](const char* what) {
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), i / 33 == 1) << what << " " << i;
  };
  softmax_forward<float>(GetParam(), {3, 33}, x.data(), nullptr, y.data());
  check("softmax");
  layernorm_forward<float>(GetParam(), {3, 33}, x.data(), w.data(), b.data(), y.data(), {mean.data(), rstd.data()});
  check("layernorm");
  rmsnorm_forward<float>(GetParam(), {3, 33}, x.data(), w.data(), y.data(), rstd.data());
  check("rmsnorm");
  gelu_forward<float>(GetParam(), x.size(), x.data(), y.data());
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), i == 33 + 5) << i;
}

TEST_P(RowsKernel, GeluMatchesDoubleAndItsTailsAreFlat) {
  for (std::size_t count : kAwkwardSizes) {
    auto x = random_values<float>(random_, count, 10);
    const auto dy = random_values<float>(random_, count, 1);
    const auto wx = widen(x), wdy = widen(dy);
    Shifted sx(x), sdy(dy);
    Compared y(count), dx(count);
    gelu_forward<float>(GetParam(), count, sx.data(), y.got.data());
    gelu_backward<float>(GetParam(), count, sx.data(), sdy.data(), dx.got.data());
    gelu_forward<double>(GetParam(), count, wx.data(), y.want.data());
    gelu_backward<double>(GetParam(), count, wx.data(), wdy.data(), dx.want.data());
    expect_close(y, 1e-6, "y");
    expect_close(dx, 2e-6, "dx", 0.1);
  }
  const std::vector<float> far{-30, -100, -1e4f, -1e12f, 30, 100, 1e4f, 1e12f}, ones(8, 1.0f);
  std::vector<float> y(8), dx(8);
  gelu_forward<float>(GetParam(), 8, far.data(), y.data());
  gelu_backward<float>(GetParam(), 8, far.data(), ones.data(), dx.data());
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(y[i], far[i] < 0 ? 0.0f : far[i], 1e-6) << far[i];
    EXPECT_NEAR(dx[i], far[i] < 0 ? 0.0f : 1.0f, 1e-6) << far[i];
  }
}

TEST_P(RowsKernel, AttentionMatchesDouble) {
  for (const AttentionShape& s : {AttentionShape{1, 1, 1, 1}, AttentionShape{2, 33, 3, 51},
                                  AttentionShape{1, 65, 2, 64},
                                  AttentionShape{2, 130, 1, 17}}) {
    SCOPED_TRACE(testing::Message() << s.batch << "x" << s.time << " heads " << s.heads << " channels " << s.channels);
    const std::size_t size = s.batch * s.time * s.channels, rows = s.batch * s.heads * s.time;
    const auto qkv = random_values<float>(random_, 3 * size, 2), dout = random_values<float>(random_, size, 1);
    const auto wide_qkv = widen(qkv), wide_dout = widen(dout);
    Shifted sqkv(qkv), sdout(dout);
    Compared out(size), dqkv(3 * size), lse(rows);
    AttentionWorkspace<float> workspace;
    AttentionWorkspace<double> wide;
    attention_forward<float>(GetParam(), s, sqkv.data(), out.got.data(), {lse.got.data(), nullptr}, workspace);
    attention_backward<float>(GetParam(), s, sqkv.data(), {lse.got.data(), nullptr}, sdout.data(), dqkv.got.data(),
                              workspace);
    attention_forward<double>(GetParam(), s, wide_qkv.data(), out.want.data(), {lse.want.data(), nullptr}, wide);
    attention_backward<double>(GetParam(), s, wide_qkv.data(), {lse.want.data(), nullptr}, wide_dout.data(),
                               dqkv.want.data(), wide);
    expect_close(out, 3e-6, "out");
    expect_close(lse, 3e-6, "lse");
    expect_close(dqkv, 5e-6, "dqkv");
  }
}

// In double, so that a difference quotient means something.
TEST(AttentionKernel, GradientsAreFiniteDifferences) {
  std::mt19937_64 random(12);
  const AttentionShape s{1, 5, 2, 6};
  const std::size_t size = s.time * s.channels;
  auto qkv = random_values<double>(random, 3 * size, 1);
  const auto dout = random_values<double>(random, size, 1);
  std::vector<double> out(size), lse(s.heads * s.time), dqkv(3 * size);
  AttentionWorkspace<double> workspace;
  const auto loss = [&] {
    attention_forward<double>(Isa::kReference, s, qkv.data(), out.data(), {lse.data(), nullptr}, workspace);
    double sum = 0;
    for (std::size_t i = 0; i < size; ++i) sum += out[i] * dout[i];
    return sum;
  };
  loss();
  attention_backward<double>(Isa::kReference, s, qkv.data(), {lse.data(), nullptr}, dout.data(), dqkv.data(),
                             workspace);
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    const double kept = std::exchange(qkv[i], qkv[i] + 1e-6);
    const double above = loss();
    qkv[i] = kept - 1e-6;
    const double below = loss();
    qkv[i] = kept;
    EXPECT_NEAR(dqkv[i], (above - below) / 2e-6, 1e-8) << i;
  }
}

TEST_P(RowsKernel, ScansMatchDouble) {
  for (const ScanShape& s : {ScanShape{1, 1}, ScanShape{9, 15}, ScanShape{20, 16}, ScanShape{7, 33},
                             ScanShape{128, 3}}) {
    SCOPED_TRACE(testing::Message() << s.steps << "x" << s.envs);
    const std::size_t size = s.steps * s.envs;
    const auto reward = random_values<float>(random_, size, 1), value = random_values<float>(random_, size, 3);
    auto final_value = random_values<float>(random_, size, 3);
    const auto last = random_values<float>(random_, s.envs, 3);
    const auto mu = random_values<float>(random_, size, 1), pi = random_values<float>(random_, size, 1);
    std::vector<float> discount(size, 0.9f);
    std::vector<std::uint8_t> terminated(size), truncated(size);
    for (std::size_t i = 0; i < size; ++i) {
      terminated[i] = random_() % 7 == 0 ? 1 : 0;
      truncated[i] = random_() % 7 == 0 ? 1 : 0;
      if (terminated[i] != 0) discount[i] = 0;
      if (terminated[i] == 0 && truncated[i] == 0) final_value[i] = NAN;  // must not be looked at
    }
    const auto wr = widen(reward), wv = widen(value), wf = widen(final_value), wl = widen(last), wm = widen(mu),
               wp = widen(pi), wd = widen(discount);
    Compared advantage(size), returns(size), vs(size), pg(size);
    gae_scan<float>(GetParam(), s, {reward.data(), value.data(), final_value.data(), terminated.data(),
                                    truncated.data(), last.data(), advantage.got.data(), returns.got.data()}, {});
    gae_scan<double>(GetParam(), s, {wr.data(), wv.data(), wf.data(), terminated.data(), truncated.data(), wl.data(),
                                     advantage.want.data(), returns.want.data()}, {});
    vtrace_scan<float>(GetParam(), s, {mu.data(), pi.data(), discount.data(), reward.data(), value.data(), last.data(),
                                       vs.got.data(), pg.got.data()}, {.lambda = 0.95});
    vtrace_scan<double>(GetParam(), s, {wm.data(), wp.data(), wd.data(), wr.data(), wv.data(), wl.data(),
                                        vs.want.data(), pg.want.data()}, {.lambda = 0.95});
    expect_close(advantage, 3e-6, "advantage");
    expect_close(returns, 3e-6, "returns");
    expect_close(vs, 3e-6, "vs");
    expect_close(pg, 3e-6, "pg_advantage");
  }
}

TEST_P(RowsKernel, SCN2_VtraceReproducesThePublishedExample) {
  std::vector<float> rho(5), zero(5), discount(5, 0.9f), value(5), vs(5), pg(5);
  for (std::size_t i = 0; i < 5; ++i) {
    rho[i] = 5.0f * (static_cast<float>(i) / 5.0f - 0.5f);
    value[i] = static_cast<float>(i);
  }
  const float bootstrap = 1;
  vtrace_scan<float>(GetParam(), {5, 1}, {zero.data(), rho.data(), discount.data(), value.data(), value.data(),
                                          &bootstrap, vs.data(), pg.data()},
                     {.rho_bar = 3.7, .pg_rho_bar = 2.2});
  const double want_vs[] = {0.2001818519, 2.709682447, 8.51362793, 11.93239657, 7.33};
  const double want_pg[] = {0.2001818519, 1.709682447, 6.51362793, 10.87661422, 1.98};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(vs[i], want_vs[i], 1e-5);
    EXPECT_NEAR(pg[i], want_pg[i], 1e-5);
  }
}

TEST_P(RowsKernel, AdamWAndSgdMatchDoubleOnAwkwardSizes) {
  for (std::size_t count : kAwkwardSizes) {
    auto p = random_values<float>(random_, count, 1), q = p;
    auto wide_p = widen(p), wide_q = wide_p;
    std::vector<float> m(count), v(count), buffer(count);
    std::vector<double> wide_m(count), wide_v(count), wide_buffer(count);
    for (int step = 1; step <= 3; ++step) {
      const auto grads = random_values<float>(random_, count, 0.3);
      const auto wide_grads = widen(grads);
      const AdamOptions options{.learning_rate = 1e-2, .epsilon = 1e-5, .weight_decay = 0.1};
      adam_step<float>(GetParam(), {p, grads, m, v}, step, 0.5, options);
      adam_step<double>(GetParam(), {wide_p, wide_grads, wide_m, wide_v}, step, 0.5, options);
      sgd_step<float>(GetParam(), q, grads, buffer, step, 0.5, {0.1, 0.9, 0.01});
      sgd_step<double>(GetParam(), wide_q, wide_grads, wide_buffer, step, 0.5, {0.1, 0.9, 0.01});
    }
    EXPECT_LT(deviation(p, wide_p), 2e-6) << count;
    EXPECT_LT(deviation(q, wide_q), 2e-6) << count;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, RowsKernel, testing::ValuesIn(supported()), name_of_isa);

TEST(NormKernel, KO2_CutIntoTensorsOrShardsItIsTheSameToTheBit) {
  std::mt19937_64 random(13);
  const auto all = random_values<float>(random, 6 * kNormBlock + 1234, 1);
  const double whole = global_norm<float>(all);
  const std::span<const float> view(all);
  const std::vector<std::span<const float>> tensors{view.first(5), view.subspan(5, 2 * kNormBlock),
                                                    view.subspan(5 + 2 * kNormBlock, 0),
                                                    view.subspan(5 + 2 * kNormBlock)};
  EXPECT_EQ(global_norm<float>(std::span<const std::span<const float>>(tensors)), whole);
  std::vector<double> sums(7);
  square_sums<float>(view.first(2 * kNormBlock), sums);
  square_sums<float>(view.subspan(2 * kNormBlock), std::span(sums).subspan(2));
  double total = 0;
  for (const double sum : sums) total += sum;
  EXPECT_EQ(std::sqrt(total), whole);
}

TEST(EmbeddingKernel, EM1_FindsTheFirstTokenOutOfRange) {
  const std::vector<std::int32_t> tokens{0, 4, -1, 9};
  EXPECT_EQ(token_out_of_range(tokens, 5), 2u);
  EXPECT_EQ(token_out_of_range(std::span(tokens).first(2), 4), 1u);
  EXPECT_EQ(token_out_of_range(std::span(tokens).first(2), 5), 2u);
}

}  // namespace
