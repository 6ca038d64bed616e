// Every version of every transformer kernel against recorded cases, in float to the recorded tolerances and, for the
// reference, in double.
#include "kernels/cpu/linear/attention.h"
#include "kernels/cpu/rows/embedding.h"
#include "kernels/cpu/linear/matmul.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "kernels/cpu/rows/rows.h"
#include "tests/kernels/golden.h"
#include "tests/kernels/support.h"

namespace {

using namespace kernels_test;
using namespace troupe::kernels;
using golden::Case;

// The arithmetic under test: float on an instruction set, or the double reference.
struct Float {
  using T = float;
  Isa isa;
  double tolerance(double for_float, double = 1e-12) const { return for_float; }
};
struct Double {
  using T = double;
  Isa isa = Isa::kReference;
  double tolerance(double, double for_double = 1e-12) const { return for_double; }
};

template <class T>
std::vector<T> load(const Case& c, std::string_view name) {
  const auto values = c.array(name).values;
  return {values.begin(), values.end()};
}

template <class T>
void expect_near(const Case& c, std::string_view name, const std::vector<T>& got, double tolerance) {
  const auto want = c.array(name).values;
  ASSERT_EQ(got.size(), want.size()) << c.name() << " " << name;
  EXPECT_LE(deviation(got, want), tolerance) << c.name() << " " << name;
}

// Runs the check for all cases of an operation; the project's own copy has at least one of each.
template <class Check>
void for_cases(std::string_view operation, const Check& check) {
  const auto cases = golden::cases_of(operation);
  if (cases.empty()) GTEST_SKIP() << "no case of " << operation;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name());
    check(c);
  }
}

template <class A>
void layernorm(const A& with, const Case& c) {
  using T = typename A::T;
  const RowsShape shape{c.size("rows"), c.size("cols")};
  const auto x = load<T>(c, "x"), w = load<T>(c, "w"), b = load<T>(c, "b"), dy = load<T>(c, "dy");
  std::vector<T> y(x.size()), mean(shape.rows), rstd(shape.rows), dx(x.size()), dw(w.size()), db(w.size());
  layernorm_forward<T>(with.isa, shape, x.data(), w.data(), b.data(), y.data(), {mean.data(), rstd.data()});
  layernorm_backward<T>(with.isa, shape, x.data(), w.data(), {mean.data(), rstd.data()}, dy.data(), dx.data(),
                        dw.data(), db.data());
  const bool hard = c.number("f32_error_y") > 1e-5;  // rows far from zero: the recording lost digits too
  const double tolerance = with.tolerance(hard ? 1e-3 : 3e-6, hard ? 1e-9 : 1e-12);
  expect_near(c, "y", y, tolerance);
  expect_near(c, "mean", mean, tolerance);
  expect_near(c, "rstd", rstd, tolerance);
  expect_near(c, "dx", dx, tolerance);
  expect_near(c, "dw", dw, tolerance);
  expect_near(c, "db", db, tolerance);
}

template <class A>
void rmsnorm(const A& with, const Case& c) {
  using T = typename A::T;
  const RowsShape shape{c.size("rows"), c.size("cols")};
  const auto x = load<T>(c, "x"), w = load<T>(c, "w"), dy = load<T>(c, "dy");
  std::vector<T> y(x.size()), rstd(shape.rows), dx(x.size()), dw(w.size());
  rmsnorm_forward<T>(with.isa, shape, x.data(), w.data(), y.data(), rstd.data());
  rmsnorm_backward<T>(with.isa, shape, x.data(), w.data(), rstd.data(), dy.data(), dx.data(), dw.data());
  expect_near(c, "y", y, with.tolerance(3e-6));
  expect_near(c, "rstd", rstd, with.tolerance(3e-6));
  expect_near(c, "dx", dx, with.tolerance(3e-6));
  expect_near(c, "dw", dw, with.tolerance(3e-6));
}

template <class A>
void softmax(const A& with, const Case& c) {
  using T = typename A::T;
  const auto x = load<T>(c, "x"), dy = load<T>(c, "dy");
  std::vector<T> y(x.size()), dx(x.size());
  RowsShape shape;
  if (c.has("mask")) {
    shape = {c.size("rows"), c.size("cols")};
    const auto mask = c.array("mask").flags();
    softmax_forward<T>(with.isa, shape, x.data(), mask.data(), y.data());
    for (std::size_t i = 0; i < mask.size(); ++i) ASSERT_TRUE(mask[i] != 0 || y[i] == T{0});
  } else if (c.name().starts_with("softmax_causal_")) {
    shape = {x.size() / c.size("time"), c.size("time")};
    softmax_causal_forward<T>(with.isa, c.size("batch") * c.size("heads"), c.size("time"), x.data(), y.data());
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_TRUE(i % shape.columns <= i / shape.columns % shape.columns || y[i] == T{0});
  } else {
    shape = {c.size("rows"), c.size("cols")};
    softmax_forward<T>(with.isa, shape, x.data(), nullptr, y.data());
  }
  softmax_backward<T>(with.isa, shape, y.data(), dy.data(), dx.data());
  expect_near(c, "y", y, with.tolerance(3e-6));
  expect_near(c, "dx", dx, with.tolerance(3e-6));
}

template <class A>
void gelu(const A& with, const Case& c) {
  using T = typename A::T;
  const auto x = load<T>(c, "x"), dy = load<T>(c, "dy");
  std::vector<T> y(x.size()), dx(x.size());
  gelu_forward<T>(with.isa, x.size(), x.data(), y.data());
  gelu_backward<T>(with.isa, x.size(), x.data(), dy.data(), dx.data());
  expect_near(c, "y", y, with.tolerance(3e-6));
  expect_near(c, "dx", dx, with.tolerance(3e-6));
}

template <class A>
void entropy(const A& with, const Case& c) {
  using T = typename A::T;
  const RowsShape shape{c.size("rows"), c.size("cols")};
  const auto logits = load<T>(c, "logits");
  const auto targets = c.array("targets").integers();
  std::vector<T> row_loss(shape.rows), dlogits(logits.size()), again(shape.rows);
  const auto result =
      cross_entropy<T>(with.isa, shape, logits.data(), targets.data(), {row_loss.data(), dlogits.data()});
  EXPECT_EQ(result.counted, c.size("counted"));
  const double loss = result.loss_sum / static_cast<double>(result.counted);
  EXPECT_NEAR(loss, c.array("loss").values.at(0), with.tolerance(2e-6) * std::abs(loss));
  expect_near(c, "row_loss", row_loss, with.tolerance(2e-6));
  expect_near(c, "dlogits", dlogits, with.tolerance(2e-6));
  cross_entropy<T>(with.isa, shape, logits.data(), targets.data(), {.row_loss = again.data()});
  expect_near(c, "row_loss", again, with.tolerance(2e-6));
}

template <class A>
void attention(const A& with, const Case& c) {
  using T = typename A::T;
  const AttentionShape shape{c.size("batch"), c.size("time"), c.size("heads"), c.size("heads") * c.size("head_dim")};
  const auto qkv = load<T>(c, "qkv"), dout = load<T>(c, "dout");
  const std::size_t rows = shape.batch * shape.heads * shape.time;
  for (bool keep : {true, false}) {
    std::vector<T> out(dout.size()), lse(rows), probs(rows * shape.time, T{7}), dqkv(qkv.size(), T{7});
    AttentionWorkspace<T> workspace;
    const AttentionState<T> state{.lse = lse.data(), .probs = keep ? probs.data() : nullptr};
    attention_forward<T>(with.isa, shape, qkv.data(), out.data(), state, workspace);
    attention_backward<T>(with.isa, shape, qkv.data(), state, dout.data(), dqkv.data(), workspace);
    expect_near(c, "out", out, with.tolerance(5e-6));
    expect_near(c, "lse", lse, with.tolerance(5e-6));
    if (keep) expect_near(c, "probs", probs, with.tolerance(5e-6));
    expect_near(c, "dqkv", dqkv, with.tolerance(5e-6));
  }
}

template <class A>
void multi_head(const A& with, const Case& c) {
  using T = typename A::T;
  const AttentionShape shape{c.size("batch"), c.size("time"), c.size("heads"), c.size("channels")};
  const std::size_t rows = shape.batch * shape.time, channels = shape.channels;
  const auto x = load<T>(c, "x"), w_qkv = load<T>(c, "w_qkv"), b_qkv = load<T>(c, "b_qkv");
  const auto w_proj = load<T>(c, "w_proj"), b_proj = load<T>(c, "b_proj"), dy = load<T>(c, "dy");
  std::vector<T> qkv(rows * 3 * channels), out(x.size()), y(x.size()), lse(rows * shape.heads);
  std::vector<T> dout(x.size()), dqkv(qkv.size()), dx(x.size()), dw_qkv(w_qkv.size()), db_qkv(b_qkv.size());
  std::vector<T> dw_proj(w_proj.size()), db_proj(b_proj.size());
  AttentionWorkspace<T> workspace;
  linear_forward<T>(with.isa, {rows, channels, 3 * channels}, x.data(), w_qkv.data(), b_qkv.data(), qkv.data());
  attention_forward<T>(with.isa, shape, qkv.data(), out.data(), {.lse = lse.data()}, workspace);
  linear_forward<T>(with.isa, {rows, channels, channels}, out.data(), w_proj.data(), b_proj.data(), y.data());
  linear_backward<T>(with.isa, {rows, channels, channels}, out.data(), w_proj.data(), dy.data(),
                     {dout.data(), dw_proj.data(), db_proj.data()});
  attention_backward<T>(with.isa, shape, qkv.data(), {.lse = lse.data()}, dout.data(), dqkv.data(), workspace);
  linear_backward<T>(with.isa, {rows, channels, 3 * channels}, x.data(), w_qkv.data(), dqkv.data(),
                     {dx.data(), dw_qkv.data(), db_qkv.data()});
  const double tolerance = with.tolerance(1e-5);
  expect_near(c, "y", y, tolerance);
  expect_near(c, "dx", dx, tolerance);
  expect_near(c, "dw_qkv", dw_qkv, tolerance);
  expect_near(c, "db_qkv", db_qkv, tolerance);
  expect_near(c, "dw_proj", dw_proj, tolerance);
  expect_near(c, "db_proj", db_proj, tolerance);
}

template <class A>
void matmul_bias(const A& with, const Case& c) {
  using T = typename A::T;
  const LinearShape shape{c.size("m"), c.size("k"), c.size("n")};
  const auto x = load<T>(c, "x"), w = load<T>(c, "w"), b = load<T>(c, "b"), dy = load<T>(c, "dy");
  std::vector<T> y(dy.size()), dx(x.size()), dw(w.size()), db(b.size());
  linear_forward<T>(with.isa, shape, x.data(), w.data(), b.data(), y.data());
  linear_backward<T>(with.isa, shape, x.data(), w.data(), dy.data(), {dx.data(), dw.data(), db.data()});
  expect_near(c, "y", y, with.tolerance(5e-6));
  expect_near(c, "dx", dx, with.tolerance(5e-6));
  expect_near(c, "dw", dw, with.tolerance(5e-6));
  expect_near(c, "db", db, with.tolerance(5e-6));
}

template <class A>
void embedding(const A& with, const Case& c) {
  using T = typename A::T;
  const EmbeddingShape shape{c.size("batch"), c.size("time"), c.size("channels")};
  const auto wte = load<T>(c, "wte"), wpe = load<T>(c, "wpe"), dy = load<T>(c, "dy");
  const auto tokens = c.array("idx").integers();
  ASSERT_EQ(token_out_of_range(tokens, c.size("vocab")), tokens.size());
  std::vector<T> y(dy.size()), dwte(wte.size()), dwpe(wpe.size());
  embedding_forward<T>(shape, tokens.data(), wte.data(), wpe.data(), y.data());
  embedding_backward<T>(shape, tokens.data(), dy.data(), dwte.data(), dwpe.data());
  expect_near(c, "y", y, with.tolerance(1e-6));
  expect_near(c, "dwte", dwte, with.tolerance(1e-6));
  expect_near(c, "dwpe", dwpe, with.tolerance(1e-6));
}

template <class T>
void append(std::vector<T>& all, const std::vector<T>& row) {
  all.insert(all.end(), row.begin(), row.end());
}

template <class A>
void adamw(const A& with, const Case& c) {
  using T = typename A::T;
  const std::size_t n = c.size("n"), steps = c.size("steps"), cut = n / 3;
  auto p = load<T>(c, "p0");
  const auto grads = load<T>(c, "grads");
  std::vector<T> m(n), v(n), all_p, all_m, all_v;
  const AdamOptions options{c.number("lr"), c.number("beta1"), c.number("beta2"), c.number("eps"),
                            c.number("weight_decay")};
  for (std::size_t k = 0; k < steps; ++k) {
    const auto part = [&](std::size_t from, std::size_t count) {
      return AdamTensor<T>{{{p.data() + from, count}, {grads.data() + k * n + from, count}, {m.data() + from, count},
                            {v.data() + from, count}}};
    };
    const AdamTensor<T> tensors[] = {part(0, cut), part(cut, n - cut)};
    adamw_step<T>(with.isa, tensors, static_cast<std::int64_t>(k) + 1, 1.0, options);
    append(all_p, p);
    append(all_m, m);
    append(all_v, v);
  }
  expect_near(c, "p", all_p, with.tolerance(2e-6));
  expect_near(c, "m", all_m, with.tolerance(2e-6));
  expect_near(c, "v", all_v, with.tolerance(2e-6));
}

template <class A>
void sgd(const A& with, const Case& c) {
  using T = typename A::T;
  const std::size_t n = c.size("n"), steps = c.size("steps");
  auto p = load<T>(c, "p0");
  const auto grads = load<T>(c, "grads");
  std::vector<T> buffer(n, T{5}), all_p, all_buffer;
  for (std::size_t k = 0; k < steps; ++k) {
    sgd_step<T>(with.isa, p, std::span<const T>(grads).subspan(k * n, n), buffer, static_cast<std::int64_t>(k) + 1, 1.0,
                {c.number("lr"), c.number("momentum"), c.number("weight_decay")});
    append(all_p, p);
    append(all_buffer, buffer);
  }
  expect_near(c, "p", all_p, with.tolerance(1e-6));
  expect_near(c, "buf", all_buffer, with.tolerance(1e-6));
}

template <class A>
void clip(const A& with, const Case& c) {
  using T = typename A::T;
  std::vector<std::vector<T>> tensors;
  for (std::size_t k = 0; k < c.size("tensors"); ++k) tensors.push_back(load<T>(c, "g" + std::to_string(k)));
  const std::vector<std::span<const T>> spans(tensors.begin(), tensors.end());
  const double norm = global_norm<T>(std::span<const std::span<const T>>(spans));
  const double want = c.array("norm").values.at(0);
  EXPECT_NEAR(norm, want, with.tolerance(1e-6) * want);
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    scale_values<T>(tensors[k], clip_scale(norm, c.number("max_norm")));
    expect_near(c, "clipped" + std::to_string(k), tensors[k], with.tolerance(1e-6));
  }
}

class GoldenKernel : public testing::TestWithParam<Isa> {};

#define TROUPE_GOLDEN(name, folder, check)                                             \
  TEST_P(GoldenKernel, name) {                                                         \
    for_cases(folder, [](const Case& c) { check(Float{GetParam()}, c); });             \
  }                                                                                    \
  TEST(GoldenKernelInDouble, name) {                                                   \
    for_cases(folder, [](const Case& c) { check(Double{}, c); });                      \
  }
TROUPE_GOLDEN(LayerNorm, "layernorm", layernorm)
TROUPE_GOLDEN(RmsNorm, "rmsnorm", rmsnorm)
TROUPE_GOLDEN(Softmax, "softmax", softmax)
TROUPE_GOLDEN(SoftmaxCausal, "softmax_causal", softmax)
TROUPE_GOLDEN(SoftmaxMasked, "softmax_masked", softmax)
TROUPE_GOLDEN(Gelu, "gelu_tanh", gelu)
TROUPE_GOLDEN(CrossEntropy, "cross_entropy", entropy)
TROUPE_GOLDEN(Attention, "attention", attention)
TROUPE_GOLDEN(MultiHeadAttention, "mha", multi_head)
TROUPE_GOLDEN(MatmulBias, "matmul_bias", matmul_bias)
TROUPE_GOLDEN(Embedding, "embedding", embedding)
TROUPE_GOLDEN(AdamW, "adamw", adamw)
TROUPE_GOLDEN(SgdMomentum, "sgd_momentum", sgd)
TROUPE_GOLDEN(Clip, "clip", clip)

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenKernel, testing::ValuesIn(supported()), name_of_isa);

}  // namespace
