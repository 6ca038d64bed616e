// The published small-CPU setting of the character GPT: float follows the recorded run batch for batch, on one rank and
// on two.
//
// The whole run takes minutes: TROUPE_HEAVY=1 asks for it. Without it the first steps are compared. The project's own
// copy of the recording has no start (init.npy, 3 MB of noise): TROUPE_GOLDEN_DIR names a whole one; without it a run
// from an own start over the recorded batches meets the gate alone, with TROUPE_HEAVY=1.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numbers>

#include "apps/train/model/gpt.h"
#include "apps/train/data/text.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "tests/train/golden.h"

namespace {

using namespace troupe::train;
using golden_train::Case;

bool heavy() {
  const char* asked = std::getenv("TROUPE_HEAVY");
  return asked != nullptr && std::strcmp(asked, "1") == 0;
}

// The published schedule: warm-up to lr, then a cosine down to min_lr.
double rate_at(const Case& c, std::size_t step) {
  const double it = static_cast<double>(step), warm = c.number("warmup_iters"), last = c.number("lr_decay_iters");
  const double top = c.number("lr"), least = c.number("min_lr");
  if (it < warm) return top * (it + 1) / (warm + 1);
  if (it > last) return least;
  return least + 0.5 * (1 + std::cos(std::numbers::pi * (it - warm) / (last - warm))) * (top - least);
}

class CharRun {
 public:
  CharRun(const Case& c, std::vector<float> start)
      : c_(c),
        text_(load_text(std::filesystem::path(TROUPE_DATA_DIR) / "tinyshakespeare.txt", {.time = c.size("time")})
                  .value()),
        model_({.vocab = c.size("vocab"),
                .time = c.size("time"),
                .channels = c.size("channels"),
                .layers = c.size("layers"),
                .heads = c.size("heads")}),
        params_(std::move(start)),
        grads_(model_.parameter_count()),
        adamw_(model_.layout(), model_.parameter_count(),
               {.beta1 = c.number("beta1"),
                .beta2 = c.number("beta2"),
                .epsilon = c.number("eps"),
                .weight_decay = c.number("weight_decay")}),
        train_(c.integers("train_offsets")),
        validation_(c.integers("val_offsets")),
        batch_(c.size("batch")) {
    if (params_.empty()) {
      params_.resize(model_.parameter_count());
      model_.initialize(401, params_);
    }
  }

  const Gpt<float>& model() const { return model_; }

  struct Step {
    double loss, norm;
  };
  /// The recorded batch, cut in order into equal parts whose gradients are summed.
  Step step(std::size_t index, std::size_t ranks) {
    std::fill(grads_.begin(), grads_.end(), 0.0f);
    const std::size_t part = batch_ / ranks;
    const double tokens = static_cast<double>(batch_ * model_.options().time);
    double sum = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<float> own(ranks == 1 ? 0 : grads_.size());
      const Windows w = windows(text_.train(), std::span(train_).subspan(index * batch_ + rank * part, part));
      sum += model_.step(batch_of(w, part), params_, ranks == 1 ? grads_ : own, tokens, {}).sum;
      for (std::size_t i = 0; i < own.size(); ++i) grads_[i] += own[i];
    }
    const double norm = troupe::kernels::global_norm<float>(std::span<const float>(grads_));
    adamw_.step(troupe::kernels::best_isa(), params_, grads_, troupe::kernels::clip_scale(norm, c_.number("grad_clip")),
                rate_at(c_, index));
    return {.loss = sum / tokens, .norm = norm};
  }

  /// Mean over the fixed validation batches.
  double validate() {
    double sum = 0;
    std::size_t counted = 0;
    for (std::size_t at = 0; at < validation_.size(); at += batch_) {
      const Windows w = windows(text_.validation(), std::span(validation_).subspan(at, batch_));
      const Loss loss = model_.evaluate(batch_of(w, batch_), params_);
      sum += loss.sum;
      counted += loss.counted;
    }
    return sum / static_cast<double>(counted);
  }

 private:
  Windows windows(std::span<const std::int32_t> ids, std::span<const std::int32_t> offsets) const {
    return windows_at(ids, offsets, model_.options().time).value();
  }
  static Batch batch_of(const Windows& w, std::size_t rows) {
    return {.rows = rows, .features = {}, .tokens = w.tokens, .targets = w.targets};
  }

  const Case& c_;
  TextData text_;
  Gpt<float> model_;
  std::vector<float> params_, grads_;
  golden_train::AdamW<float> adamw_;
  std::vector<std::int32_t> train_, validation_;
  std::size_t batch_;
};

// val_curve.csv: iteration,validation loss,...
std::vector<std::pair<std::size_t, double>> recorded_curve(const Case& c) {
  std::ifstream in(c.path() / "val_curve.csv");
  std::vector<std::pair<std::size_t, double>> out;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) out.emplace_back(std::stoull(line), std::stod(line.substr(line.find(',') + 1)));
  return out;
}

constexpr double kGate = 1.93;

void follow(const Case& c, std::size_t steps, std::size_t ranks) {
  CharRun run(c, c.values<float>("init"));
  golden_train::expect_layout(run.model().layout(), c.layout());
  const auto losses = c.array("f32_train_losses"), norms = c.array("f32_grad_norms");
  const bool whole = steps == losses.size();
  double worst = 0, early = 0, worst_norm = 0, worst_curve = 0, final_loss = 0;
  const auto validate = [&](std::size_t at) {
    for (const auto& [iteration, want] : recorded_curve(c)) {
      if (iteration != at) continue;
      final_loss = run.validate();
      worst_curve = std::max(worst_curve, std::abs(final_loss - want));
      EXPECT_NEAR(final_loss, want, 1e-3) << "validation at " << at;
    }
  };
  for (std::size_t i = 0; i < steps; ++i) {
    if (whole) validate(i);
    const auto [loss, norm] = run.step(i, ranks);
    ASSERT_NEAR(loss, losses[i], i < 100 ? 1e-5 : 1e-3) << "step " << i;
    worst = std::max(worst, std::abs(loss - losses[i]));
    if (i < 100) early = worst;
    worst_norm = std::max(worst_norm, std::abs(norm / norms[i] - 1));
  }
  if (whole) {
    validate(steps);
    EXPECT_LE(final_loss, kGate);
  }
  std::printf(
      "%s, %zu ranks, %zu steps: training loss off by at most %.1e (first 100: %.1e), norm by %.1e, validation by "
      "%.1e; "
      "ends at %.4f\n",
      c.name().c_str(), ranks, steps, worst, early, worst_norm, worst_curve, final_loss);
}

template <class Check>
void for_whole_recordings(const Check& check) {
  golden_train::for_cases("char_gpt_cpu", [&](const Case& c) {
    if (!c.has("init")) GTEST_SKIP() << c.path() << " has no init.npy: TROUPE_GOLDEN_DIR names a whole recording";
    check(c);
  });
}

TEST(GoldenCharGpt, FirstStepsFollowTheRecordedRun) {
  for_whole_recordings([](const Case& c) { follow(c, 40, 1); });
}
TEST(GoldenCharGpt, FirstStepsOnTwoRanksFollowTheRecordedRun) {
  for_whole_recordings([](const Case& c) { follow(c, 20, 2); });
}
TEST(GoldenCharGpt, WholeRunFollowsTheRecordedOneAndMeetsTheGate) {
  if (!heavy()) GTEST_SKIP() << "takes minutes: TROUPE_HEAVY=1 asks for it";
  for_whole_recordings([](const Case& c) { follow(c, c.size("iterations"), 1); });
}
TEST(GoldenCharGpt, WholeRunOnTwoRanksFollowsTheRecordedOneAndMeetsTheGate) {
  if (!heavy()) GTEST_SKIP() << "takes minutes: TROUPE_HEAVY=1 asks for it";
  for_whole_recordings([](const Case& c) { follow(c, c.size("iterations"), 2); });
}
TEST(GoldenCharGpt, AnOwnStartMeetsTheGate) {
  if (!heavy()) GTEST_SKIP() << "takes minutes: TROUPE_HEAVY=1 asks for it";
  golden_train::for_cases("char_gpt_cpu", [](const Case& c) {
    CharRun run(c, {});
    for (std::size_t i = 0; i < c.size("iterations"); ++i) ASSERT_TRUE(std::isfinite(run.step(i, 1).loss)) << i;
    const double loss = run.validate();
    EXPECT_LE(loss, kGate);
    std::printf("%s, own start: ends at %.4f\n", c.name().c_str(), loss);
  });
}

}  // namespace
