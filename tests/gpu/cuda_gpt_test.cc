// CG-1 and CG-2: a GPT on the GPU's kernels equals the recordings and Gpt on the CPU; the promises of Model hold. The
//      kernels
// come from a plug-in: the emulated one (TROUPE_EMULATED_CUDA, set when this is built), or the one that TROUPE_CUDA_LIB
// names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include <troupe/error.h>

#include "apps/train/model/draws.h"
#include "apps/train/model/gpt.h"
#include "apps/train/model/gpt_cuda.h"
#include "tests/train/announced.h"
#include "tests/train/golden.h"

namespace {

using namespace troupe::train;
using golden_train::Case;
using troupe::kernels::cuda::cuda_table_of;
using troupe::kernels::cuda::Table;

const Table& table() {
  const char* named = std::getenv("TROUPE_CUDA_LIB");
  static const Table* const found = cuda_table_of(named != nullptr ? named : TROUPE_EMULATED_CUDA).value();
  return *found;
}

GptOptions options_of(const Case& c) {
  return {.vocab = c.size("vocab"), .time = c.size("time"), .channels = c.size("channels"), .layers = c.size("layers"),
          .heads = c.size("heads")};
}

/// Random rows for a model of these options.
struct Rows {
  Rows(const GptOptions& o, std::size_t rows, std::uint64_t seed) : count(rows) {
    Draws draws(seed);
    for (std::size_t i = 0; i < rows * o.time; ++i) {
      tokens.push_back(static_cast<std::int32_t>(draws.unit() * static_cast<double>(o.vocab)));
      targets.push_back(static_cast<std::int32_t>(draws.unit() * static_cast<double>(o.vocab)));
    }
  }
  Batch batch(std::size_t first, std::size_t rows) const {
    const std::size_t time = tokens.size() / count;
    return {.rows = rows, .features = {}, .tokens = std::span(tokens).subspan(first * time, rows * time),
            .targets = std::span(targets).subspan(first * time, rows * time)};
  }
  std::size_t count;
  std::vector<std::int32_t> tokens, targets;
};

constexpr GptOptions kSmall{.vocab = 29, .time = 6, .channels = 24, .layers = 2, .heads = 3};

std::vector<double> wide(std::span<const float> values) { return {values.begin(), values.end()}; }

void expect_gradients(const Layout& layout, std::span<const float> got, std::span<const double> want, double near) {
  double largest = 0;
  for (const double g : want) largest = std::max(largest, std::abs(g));
  for (const Tensor& t : layout) {
    const auto ref = want.subspan(t.offset, t.size);
    const double off = golden_train::largest_difference<float>(got.subspan(t.offset, t.size), ref);
    EXPECT_LE(off, near * largest) << t.name;
  }
}

TEST(CudaGptGolden, LogitsLossAndGradients) {
  golden_train::for_cases("gpt_", [](const Case& c) {
    CudaGpt model(options_of(c), table());
    golden_train::expect_layout(model.layout(), c.layout());
    const auto params = c.values<float>("init");
    const auto tokens = c.integers("tokens"), targets = c.integers("targets");
    const std::size_t count = c.size("batch") * c.size("time");
    const Batch batch{.rows = c.size("batch"), .features = {}, .tokens = std::span(tokens).first(count),
                      .targets = std::span(targets).first(count)};
    std::vector<float> grads(params.size()), logits(count * c.size("vocab"));
    const Loss loss = model.step(batch, params, grads, static_cast<double>(count), {});
    EXPECT_NEAR(loss.sum / static_cast<double>(count), c.array("f64_losses").at(0), 2e-6);
    model.logits(logits);
    EXPECT_LE(golden_train::deviation<float>(logits, c.array("f64_logits")), 5e-6);
    expect_gradients(model.layout(), grads, c.array("f64_grads"), 1e-5);
  });
}

TEST(CudaGptGolden, ThreeAdamWSteps) {
  golden_train::for_cases("gpt_", [](const Case& c) {
    CudaGpt model(options_of(c), table());
    auto params = c.values<float>("init");
    golden_train::AdamW<float> adamw(model.layout(), params.size(),
                                     {.beta1 = c.number("beta1"),
                                      .beta2 = c.number("beta2"),
                                      .epsilon = c.number("eps"),
                                      .weight_decay = c.number("weight_decay")});
    const auto tokens = c.integers("tokens"), targets = c.integers("targets");
    const auto losses = c.array("f64_losses"), norms = c.array("f64_grad_norms");
    const std::size_t count = c.size("batch") * c.size("time");
    for (std::size_t step = 0; step < 3; ++step) {
      const Batch batch{.rows = c.size("batch"),
                        .features = {},
                        .tokens = std::span(tokens).subspan(step * count, count),
                        .targets = std::span(targets).subspan(step * count, count)};
      std::vector<float> grads(params.size());
      const Loss loss = model.step(batch, params, grads, static_cast<double>(count), {});
      EXPECT_NEAR(loss.sum / static_cast<double>(count), losses[step], 1e-5) << step;
      const double norm = troupe::kernels::global_norm<float>(std::span<const float>(grads));
      EXPECT_NEAR(norm / norms[step], 1.0, 5e-6) << step;
      adamw.step(troupe::kernels::best_isa(), params, grads, troupe::kernels::clip_scale(norm, c.number("grad_clip")),
                 c.number("lr"));
    }
  });
}

TEST(CudaGpt, EqualsTheModelsOnTheCpuInTwoStepsOfOtherSizesAndAwkwardOnes) {  // CG-2
  for (const GptOptions& o : {kSmall, GptOptions{.vocab = 17, .time = 5, .channels = 9, .layers = 1, .heads = 3},
                              GptOptions{.vocab = 3, .time = 1, .channels = 2, .layers = 1, .heads = 1}}) {
    SCOPED_TRACE(o.channels);
    // Two rows of logits at a time: several slices of the head, the last one shorter.
    CudaGpt model(o, table(), 0, 2 * o.vocab);
    Gpt<float> on_cpu(o);
    Gpt<double> in_double(o);
    ASSERT_EQ(model.parameter_count(), on_cpu.parameter_count());
    std::vector<float> params(model.parameter_count()), start(params.size());
    model.initialize(3, params);
    on_cpu.initialize(3, start);
    EXPECT_EQ(params, start);  // CG-1
    const Rows rows(o, 5, 7);
    for (const std::size_t count : {std::size_t{2}, std::size_t{5}, std::size_t{3}}) {
      const Batch batch = rows.batch(5 - count, count);
      std::vector<float> got(params.size()), cpu(params.size());
      std::vector<double> want(params.size());
      const auto wide_params = wide(params);
      const Loss loss = model.step(batch, params, got, 7, {});
      EXPECT_NEAR(loss.sum, on_cpu.step(batch, params, cpu, 7, {}).sum, 1e-4);
      EXPECT_NEAR(loss.sum, in_double.step(batch, wide_params, want, 7, {}).sum, 1e-4);
      EXPECT_EQ(loss.counted, batch.targets.size());
      expect_gradients(model.layout(), got, want, 2e-5);
      expect_gradients(model.layout(), got, wide(cpu), 2e-5);
      EXPECT_NEAR(model.evaluate(batch, params).sum, loss.sum, 1e-4);
    }
  }
}

TEST(CudaGpt, AddsItsGradientsSoThatMicroBatchesAccumulate) {  // MD-1, MD-2
  CudaGpt model(kSmall, table());
  std::vector<float> params(model.parameter_count());
  model.initialize(3, params);
  const Rows rows(kSmall, 5, 7);
  std::vector<float> whole(params.size()), parts(params.size());
  model.step(rows.batch(0, 5), params, whole, 5, {});
  model.step(rows.batch(0, 2), params, parts, 5, {});
  model.step(rows.batch(2, 3), params, parts, 5, {});
  expect_gradients(model.layout(), parts, wide(whole), 1e-5);
}

TEST(CudaGpt, WritesNoElementThatItCalledFinal) {  // MD-3
  CudaGpt model(kSmall, table());
  std::vector<float> params(model.parameter_count()), gradients(params.size());
  model.initialize(3, params);
  const Rows rows(kSmall, 2, 7);
  model_promises::Announced announced(gradients);
  model.step(rows.batch(0, 2), params, gradients, 2, announced.listener());
  EXPECT_EQ(announced.count(), kSmall.layers + 2);  // ln_f, the blocks, the embeddings
  announced.expect_kept();
}

TEST(CudaGpt, GivesTheSameBitsWhateverCameBefore) {  // MD-4
  CudaGpt model(kSmall, table());
  std::vector<float> params(model.parameter_count()), first(params.size()), again(params.size()), other(params.size());
  model.initialize(3, params);
  const Rows rows(kSmall, 4, 7);
  model.step(rows.batch(0, 2), params, first, 2, {});
  model.step(rows.batch(0, 4), params, other, 7, {});
  model.evaluate(rows.batch(1, 3), params);
  model.step(rows.batch(0, 2), params, again, 2, {});
  EXPECT_EQ(again, first);
}

TEST(CudaGpt, DoesNotCountTargetsBelowZeroAndTakesNoRowsAsNothingToAdd) {
  CudaGpt model(kSmall, table());
  std::vector<float> params(model.parameter_count()), gradients(params.size());
  model.initialize(3, params);
  Rows rows(kSmall, 2, 7);
  const Loss want = model.evaluate(rows.batch(0, 1), params);
  std::fill(rows.targets.begin() + static_cast<std::ptrdiff_t>(kSmall.time), rows.targets.end(), -1);
  const Loss got = model.evaluate(rows.batch(0, 2), params);
  EXPECT_EQ(got.counted, want.counted);
  EXPECT_NEAR(got.sum, want.sum, 1e-4);
  std::vector<std::size_t> told;
  model.step(rows.batch(0, 0), params, gradients, 1, [&](std::size_t offset) { told.push_back(offset); });
  EXPECT_EQ(gradients, std::vector<float>(gradients.size()));
  EXPECT_EQ(told, std::vector<std::size_t>{0});
}

TEST(CudaGpt, RefusesWhatGptRefusesAndHeadsThatTheKernelsDoNotHave) {  // CG-1
  CudaGpt model(kSmall, table());
  std::vector<float> params(model.parameter_count()), gradients(params.size());
  Rows rows(kSmall, 2, 7);
  EXPECT_THROW(model.step(rows.batch(0, 2), params, gradients, 0, {}), troupe::InvalidArgumentError);
  EXPECT_THROW(model.step(rows.batch(0, 2), params, std::span(gradients).first(3), 1, {}),
               troupe::InvalidArgumentError);
  EXPECT_THROW(model.evaluate(rows.batch(0, 2), std::span(params).first(3)), troupe::InvalidArgumentError);
  rows.tokens[1] = static_cast<std::int32_t>(kSmall.vocab);
  EXPECT_THROW(model.evaluate(rows.batch(0, 2), params), troupe::InvalidArgumentError);
  EXPECT_THROW(CudaGpt({.channels = 10, .heads = 3}, table()), troupe::InvalidArgumentError);
  EXPECT_THROW(CudaGpt({.channels = 129, .heads = 1}, table()), troupe::InvalidArgumentError);
  EXPECT_TRUE(check_device_heads({.channels = 128, .heads = 1}, Precision::kFloat).ok());
  EXPECT_FALSE(check_device_heads({.channels = 65, .heads = 1}, Precision::kBFloat16).ok());
}

/// GptDevice's loss and gradients, in bfloat16 or float, by hand.
std::pair<Loss, std::vector<float>> on_device(const GptOptions& o, std::span<const float> params, const Rows& rows,
                                              Precision precision) {
  const Cuda cuda(table());
  const GptShape shape(o);
  GptDevice model(cuda, shape, {.precision = precision, .repeatable = false, .head_logits = 4 * o.vocab});
  DeviceBuffer<float> values(cuda, params.size()), gradients(cuda, params.size());
  DeviceBuffer<std::uint16_t> working(cuda, params.size());
  DeviceBuffer<std::int32_t> tokens(cuda, rows.tokens.size()), targets(cuda, rows.targets.size());
  cuda.copy(values.data(), params.data(), params.size_bytes());
  device_narrow(cuda, working.data(), values.data(), params.size());
  cuda.copy(tokens.data(), rows.tokens.data(), rows.tokens.size() * sizeof(std::int32_t));
  cuda.copy(targets.data(), rows.targets.data(), rows.targets.size() * sizeof(std::int32_t));
  cuda.zero(gradients.data(), params.size_bytes());
  std::vector<std::size_t> told;
  model.step(rows.count, tokens.data(), targets.data(),
             {.values = values.data(), .working = working.data(), .gradients = gradients.data()}, 11,
             [&](std::size_t offset) { told.push_back(offset); });
  EXPECT_EQ(told.size(), o.layers + 2);  // DG-2
  EXPECT_TRUE(std::is_sorted(told.rbegin(), told.rend()));
  EXPECT_EQ(told.back(), 0u);
  std::vector<float> out(params.size());
  cuda.copy(out.data(), gradients.data(), params.size_bytes());
  return {model.loss(), out};
}

TEST(CudaGpt, WithBfloat16ProductsIsNearTheModelInDoubleAndInFloatNearer) {  // LY-1, DG-1
  std::vector<float> params(GptShape(kSmall).parameter_count());
  Gpt<double> in_double(kSmall);
  Draws draws(4);
  for (float& p : params) p = static_cast<float>(0.2 * draws.normal());
  const Rows rows(kSmall, 3, 9);
  std::vector<double> want(params.size());
  const Loss right = in_double.step(rows.batch(0, 3), wide(params), want, 11, {});
  const auto distance = [&](std::span<const float> got) {
    double off = 0, all = 0;
    for (std::size_t i = 0; i < want.size(); ++i) off += std::pow(got[i] - want[i], 2), all += want[i] * want[i];
    return std::sqrt(off / all);
  };
  const auto [loss, gradients] = on_device(kSmall, params, rows, Precision::kFloat);
  EXPECT_NEAR(loss.sum, right.sum, 1e-4 * right.sum);
  EXPECT_LT(distance(gradients), 1e-5);
  const auto [half_loss, half_gradients] = on_device(kSmall, params, rows, Precision::kBFloat16);
  EXPECT_EQ(half_loss.counted, right.counted);
  EXPECT_NEAR(half_loss.sum, right.sum, 1e-2 * right.sum);
  EXPECT_LT(distance(half_gradients), 3e-2);
  EXPECT_GT(distance(half_gradients), 1e-4);  // bfloat16 it was
}

TEST(CudaGpt, IsUsableAfterABatchThatFoundNoRoom) {  // DG-4
  static std::size_t room = 0;
  static Table narrow = table();
  narrow.allocate = [](void** to, std::size_t bytes) { return bytes > room ? 2 : table().allocate(to, bytes); };
  room = std::size_t{1} << 17;
  CudaGpt model(kSmall, narrow);
  std::vector<float> params(model.parameter_count()), first(params.size()), again(params.size());
  model.initialize(3, params);
  const Rows rows(kSmall, 60, 7);
  model.step(rows.batch(0, 1), params, first, 1, {});
  EXPECT_THROW(model.step(rows.batch(0, 60), params, again, 1, {}), troupe::OutOfMemoryError);
  EXPECT_EQ(again, std::vector<float>(again.size()));
  model.step(rows.batch(0, 1), params, again, 1, {});
  EXPECT_EQ(again, first);
}

TEST(CudaPlugin, SaysWhichCallFailedWhichFileIsNoPluginAndWhichGpuIsOnesOwn) {  // CU-1
  static Table failing = table();
  failing.allocate = [](void**, std::size_t) { return 2; };
  failing.set_device = [](int) { return 101; };
  const Cuda cuda(failing, 3);
  EXPECT_THROW((void)DeviceBuffer<float>(cuda, 8), troupe::OutOfMemoryError);
  try {
    cuda.use();
    FAIL();
  } catch (const troupe::Error& error) {
    EXPECT_NE(std::string(error.what()).find("GPU 3: set_device"), std::string::npos) << error.what();
  }
  failing.device_count = [](int* count) { return *count = 4, 0; };
  EXPECT_EQ(own_cuda_device(failing, 2), 2);
  EXPECT_EQ(own_cuda_device(failing, 7), 0);  // the seventh of the node, and the only one that this process sees
  ::setenv("LOCAL_RANK", "6", 1);
  EXPECT_EQ(own_cuda_device(failing), 2);
  ::unsetenv("LOCAL_RANK");
  EXPECT_EQ(own_cuda_device(failing), 0);
  EXPECT_EQ(cuda_table_of("/nowhere/libtroupe_cuda.so").error().code(), troupe::ErrorCode::kNotFound);
  EXPECT_EQ(cuda_table_of("libm.so.6").error().code(), troupe::ErrorCode::kInvalidArgument);
}

}  // namespace
