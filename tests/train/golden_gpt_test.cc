// GP-1: logits, activations, loss, every gradient, the AdamW trajectory and the data-parallel one equal the recordings,
// in float on every instruction set and in double.
#include "apps/train/model/gpt.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "tests/train/golden.h"

namespace {

using namespace troupe::train;
using golden_train::Case;
using troupe::kernels::Isa;

struct Tolerances {
  double first_loss, logits, gradients, norm, losses, params_max, params_rms;
};
constexpr Tolerances kFloat{2e-6, 5e-6, 1e-5, 5e-6, 1e-5, 2e-4, 1e-6};
constexpr Tolerances kDouble{1e-12, 1e-12, 1e-11, 1e-12, 1e-12, 1e-10, 1e-10};
template <class T>
constexpr const Tolerances& tolerances() {
  if constexpr (std::is_same_v<T, float>) return kFloat;
  else return kDouble;
}

GptOptions options_of(const Case& c) {
  return {.vocab = c.size("vocab"), .time = c.size("time"), .channels = c.size("channels"), .layers = c.size("layers"),
          .heads = c.size("heads")};
}

// c_attn's middle third of biases: their gradient is 0 in exact arithmetic, so nothing after a step is compared.
bool key_bias(const Layout& layout, std::size_t index) {
  for (const Tensor& t : layout) {
    if (index < t.offset || index >= t.offset + t.size) continue;
    const std::size_t at = index - t.offset;
    return t.name.ends_with("c_attn.bias") && at >= t.size / 3 && at < 2 * t.size / 3;
  }
  return false;
}

template <class T>
void expect_parameters(const Layout& layout, const std::vector<T>& got, const std::vector<double>& want,
                       const char* when) {
  double largest = 0, squares = 0;
  std::size_t counted = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (key_bias(layout, i)) continue;
    const double d = std::abs(static_cast<double>(got[i]) - want[i]);
    largest = d <= largest ? largest : d;
    squares += d * d;
    ++counted;
  }
  EXPECT_LE(largest, tolerances<T>().params_max) << when;
  EXPECT_LE(std::sqrt(squares / static_cast<double>(counted)), tolerances<T>().params_rms) << when;
}

struct Recording {
  std::vector<std::int32_t> tokens, targets;
  std::size_t batch, row;  // sequences a batch, positions a sequence
  Batch part(std::size_t step, std::size_t rank, std::size_t ranks) const {
    const std::size_t rows = batch / ranks, from = (step * batch + rank * rows) * row;
    return {.rows = rows, .features = {}, .tokens = std::span(tokens).subspan(from, rows * row),
            .targets = std::span(targets).subspan(from, rows * row)};
  }
};

Recording recording_of(const Case& c) {
  return {c.integers("tokens"), c.integers("targets"), c.size("batch"), c.size("time")};
}

template <class T>
void check_first_batch(const Case& c, Isa isa) {
  Gpt<T> model(options_of(c), isa);
  golden_train::expect_layout(model.layout(), c.layout());
  const auto params = c.values<T>("init");
  ASSERT_EQ(params.size(), model.parameter_count());
  const Recording recording = recording_of(c);
  const Batch batch = recording.part(0, 0, 1);
  const double tokens = static_cast<double>(batch.targets.size());
  std::vector<T> grads(params.size());
  const Loss loss = model.step(batch, params, grads, tokens, {});
  EXPECT_NEAR(loss.sum / tokens, c.array("f64_losses").at(0), tolerances<T>().first_loss);

  const double near = tolerances<T>().logits;
  EXPECT_LE(golden_train::deviation<T>(model.stream(0), c.array("f64_act_embed")), near);
  for (std::size_t layer = 0; layer < c.size("layers"); ++layer)
    EXPECT_LE(golden_train::deviation<T>(model.stream(layer + 1), c.array("f64_act_block" + std::to_string(layer))),
              near)
        << layer;
  EXPECT_LE(golden_train::deviation<T>(model.normalized(), c.array("f64_act_ln_f")), near);
  std::vector<T> logits(batch.tokens.size() * c.size("vocab"));
  model.logits(params, logits);
  EXPECT_LE(golden_train::deviation<T>(logits, c.array("f64_logits")), near);

  const auto want = c.array("f64_grads");
  for (const Tensor& t : model.layout()) {
    const auto got = std::span<const T>(grads).subspan(t.offset, t.size);
    const auto ref = std::span<const double>(want).subspan(t.offset, t.size);
    EXPECT_LE(golden_train::deviation<T>(got, ref), tolerances<T>().gradients) << t.name;
    for (std::size_t i = 0; i < t.size; ++i) {
      if (!key_bias(model.layout(), t.offset + i)) continue;
      EXPECT_LE(std::abs(got[i]), T(1e-6)) << t.name;
    }
  }
}

// Ten clipped AdamW steps over so many ranks: parts with the global divisor, summed in rank order.
template <class T>
void check_trajectory(const Case& c, Isa isa, std::size_t ranks) {
  Gpt<T> model(options_of(c), isa);
  auto params = c.values<T>("init");
  golden_train::AdamW<T> adamw(model.layout(), params.size(),
                               {.beta1 = c.number("beta1"), .beta2 = c.number("beta2"), .epsilon = c.number("eps"),
                                .weight_decay = c.number("weight_decay")});
  const Recording recording = recording_of(c);
  const std::string kind = ranks == 1 ? "f64_" : "f64_dp_";
  const auto losses = c.array(kind + "losses"), norms = c.array(kind + "grad_norms");
  const auto rank_losses = ranks == 1 ? std::vector<double>{} : c.array("f64_dp_rank_losses");
  for (std::size_t step = 0; step < c.size("steps"); ++step) {
    SCOPED_TRACE("step " + std::to_string(step) + ", ranks " + std::to_string(ranks));
    std::vector<T> total(params.size());
    double sum = 0;
    const double tokens = static_cast<double>(recording.batch * recording.row);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<T> grads(params.size());
      const Loss loss = model.step(recording.part(step, rank, ranks), params, grads, tokens, {});
      sum += loss.sum;
      if (ranks > 1) {
        const double mean = loss.sum / static_cast<double>(loss.counted);
        EXPECT_NEAR(mean, rank_losses[step * ranks + rank], tolerances<T>().losses) << "rank " << rank;
      }
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += grads[i];
    }
    EXPECT_NEAR(sum / tokens, losses[step], tolerances<T>().losses);
    const double norm = troupe::kernels::global_norm<T>(std::span<const T>(total));
    EXPECT_NEAR(norm / norms[step], 1.0, tolerances<T>().norm);
    adamw.step(isa, params, total, troupe::kernels::clip_scale(norm, c.number("grad_clip")), c.number("lr"));
    if (step == 0) expect_parameters(model.layout(), params, c.array("f64_params_step1"), "after 1 step");
  }
  expect_parameters(model.layout(), params, c.array("f64_params_step10"), "after 10 steps");
}

template <class Check>
void on_every_float_isa(const Check& check) {
  for (const Isa isa : troupe::kernels::kAllIsas) {
    if (!troupe::kernels::isa_supported(isa)) continue;
    SCOPED_TRACE(troupe::kernels::isa_name(isa));
    check(isa);
  }
}

TEST(GoldenGpt, LayoutActivationsLogitsLossAndGradientsInFloat) {
  golden_train::for_cases(
      "gpt_", [](const Case& c) { on_every_float_isa([&](Isa isa) { check_first_batch<float>(c, isa); }); });
}
TEST(GoldenGpt, LayoutActivationsLogitsLossAndGradientsInDouble) {
  golden_train::for_cases("gpt_", [](const Case& c) { check_first_batch<double>(c, Isa::kReference); });
}
TEST(GoldenGpt, TenAdamWStepsInFloat) {
  golden_train::for_cases(
      "gpt_", [](const Case& c) { on_every_float_isa([&](Isa isa) { check_trajectory<float>(c, isa, 1); }); });
}
TEST(GoldenGpt, TenAdamWStepsInDouble) {
  golden_train::for_cases("gpt_", [](const Case& c) { check_trajectory<double>(c, Isa::kReference, 1); });
}
TEST(GoldenGpt, DataParallelStepsInFloat) {
  golden_train::for_cases("gpt_", [](const Case& c) {
    on_every_float_isa([&](Isa isa) { check_trajectory<float>(c, isa, c.size("dp_ranks")); });
  });
}
TEST(GoldenGpt, DataParallelStepsInDouble) {
  golden_train::for_cases("gpt_",
                          [](const Case& c) { check_trajectory<double>(c, Isa::kReference, c.size("dp_ranks")); });
}

}  // namespace
