// The training step of a GPT-2 with 124 million parameters on a GPU: forward, backward, clip, AdamW; in float, and with
// bfloat16 products. Prints tokens and operations a second, and their share of the product rate measured in the same
// run.
//
//   gpu_gpt [--plugin FILE] [--small] [--memory BYTES] [--json FILE]
//
// The same batch is trained on again and again, so its loss has to fall, from that of a guess; both precisions begin
// with the same parameters, so their first losses have to agree. --small: a model for the emulated plug-in.
// --memory BYTES: no larger piece of memory is to be had, so that micro-batches have to be smaller.
// --plugin FILE: libtroupe_cuda.so; by default the one beside this program. TROUPE_CUBLASLT_LIB names cuBLASLt.
// Exit code: 0 all right, 1 something is wrong, 2 wrong usage, 77 no GPU (a skip).
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/error.h>

#include "apps/train/model/draws.h"
#include "tests/gpu/gpt_training.h"
#include "tests/gpu/timings.h"

namespace gpu_test {
namespace {

using namespace troupe::train;
constexpr int kSkip = 77;

struct Options {
  std::string plugin, json;
  bool small = false;
  std::size_t memory = SIZE_MAX;
};

/// What is trained, and how long.
struct Setup {
  GptOptions model;
  std::size_t tokens_known;   // the vocabulary without what it is padded with
  std::size_t rows, micro_rows;
  double rate;
  int steps_least, steps_most;  // timed ones
  double seconds;               // enough of them
};
// 50,257 tokens are padded to a multiple of 128.
const Setup kLarge{.model = {.vocab = 50304, .time = 1024, .channels = 768, .layers = 12, .heads = 12},
                   .tokens_known = 50257,
                   .rows = 16,
                   .micro_rows = 16,
                   .rate = 3e-4,
                   .steps_least = 3,
                   .steps_most = 20,
                   .seconds = 8};
const Setup kSmall{.model = {.vocab = 40, .time = 8, .channels = 16, .layers = 2, .heads = 2}, .tokens_known = 37,
                   .rows = 3, .micro_rows = 2, .rate = 1e-2, .steps_least = 3, .steps_most = 3, .seconds = 0};

struct Outcome {
  Precision precision;
  std::size_t micro_rows = 0;
  double ms_per_step = 0, tokens_per_second = 0, tflops = 0, ceiling_tflops = 0;
  std::vector<double> losses;
  const char* name() const { return precision == Precision::kFloat ? "float" : "bfloat16"; }
};

struct Data {
  std::vector<std::int32_t> tokens, targets;
};

Data random_data(const Setup& setup) {
  Draws draws(11);
  Data data;
  for (std::size_t i = 0; i < setup.rows * setup.model.time; ++i) {
    data.tokens.push_back(static_cast<std::int32_t>(draws.unit() * static_cast<double>(setup.tokens_known)));
    data.targets.push_back(static_cast<std::int32_t>(draws.unit() * static_cast<double>(setup.tokens_known)));
  }
  return data;
}

/// With the largest micro-batch that finds room.
std::unique_ptr<GptTraining> begin(const Cuda& cuda, const GptShape& shape, std::span<const float> start,
                                   const Setup& setup, Outcome& outcome) {
  for (outcome.micro_rows = setup.micro_rows;; outcome.micro_rows /= 2) {
    try {
      return std::make_unique<GptTraining>(
          cuda, shape, start,
          TrainingOptions{.precision = outcome.precision, .micro_rows = outcome.micro_rows, .rate = setup.rate});
    } catch (const troupe::OutOfMemoryError& error) {
      if (outcome.micro_rows == 1) throw;
      std::printf("micro-batches of %zu rows: %s\n", outcome.micro_rows, error.what());
    }
  }
}

Outcome train(const Cuda& cuda, const GptShape& shape, std::span<const float> start, const Setup& setup,
              const Data& data, Precision precision, const Ceilings& ceilings) {
  Outcome out{.precision = precision, .losses = {}};
  const auto training = begin(cuda, shape, start, setup, out);
  for (int i = 0; i < 2; ++i) out.losses.push_back(training->step(data.tokens, data.targets));  // not timed
  cuda.wait();
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  int steps = 0;
  while (steps < setup.steps_least || (steps < setup.steps_most && seconds() < setup.seconds)) {
    out.losses.push_back(training->step(data.tokens, data.targets));
    ++steps;
  }
  cuda.wait();
  const double each = seconds() / steps;
  out.ms_per_step = 1e3 * each;
  out.tokens_per_second = static_cast<double>(data.tokens.size()) / each;
  out.tflops = shape.step_flops(setup.rows) / each * 1e-12;
  out.ceiling_tflops =
      1e-3 * (precision == Precision::kFloat ? ceilings.float_gflop_per_second : ceilings.bf16_gflop_per_second);
  std::printf(
      "%-9s %zu rows in micro-batches of %zu: %.1f ms a step, %.0f tokens/s, %.3f TFLOP/s, %.1f%% of %.3f; loss %.4f "
      "to %.4f in %zu steps\n",
      out.name(), setup.rows, out.micro_rows, out.ms_per_step, out.tokens_per_second, out.tflops,
      100 * out.tflops / out.ceiling_tflops, out.ceiling_tflops, out.losses.front(), out.losses.back(),
      out.losses.size());
  std::fflush(stdout);
  return out;
}

/// Says what is wrong; true when nothing is.
bool right(const std::vector<Outcome>& outcomes, const Setup& setup) {
  bool good = true;
  const auto want = [&](bool holds, const Outcome& o, const char* what) {
    if (!holds) std::printf("FAILED: %s: %s\n", o.name(), what);
    good = good && holds;
  };
  for (const Outcome& o : outcomes) {
    want(std::abs(o.losses.front() - std::log(static_cast<double>(setup.model.vocab))) < 0.5, o,
         "the first loss is not that of a guess");
    want(std::abs(o.losses.front() - outcomes.front().losses.front()) < 0.02, o, "the first loss is not that of float");
    want(o.losses.back() < o.losses.front() - 0.05, o, "the loss does not fall");
  }
  return good;
}

void write_json(const std::string& file, const std::string& device, const Setup& setup,
                const GptShape& shape, const std::vector<Outcome>& outcomes) {
  if (file.empty()) return;
  std::ofstream out(file);
  const GptOptions& m = setup.model;
  out << "{\"device\": \"" << device << "\",\n \"parameters\": " << shape.parameter_count()
      << ", \"vocabulary\": " << m.vocab << ", \"context\": " << m.time << ", \"channels\": " << m.channels
      << ", \"layers\": " << m.layers << ", \"heads\": " << m.heads << ", \"rows\": " << setup.rows
      << ",\n \"runs\": [";
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& o = outcomes[i];
    out << (i != 0 ? ",\n  " : "\n  ") << "{\"precision\": \"" << o.name() << "\", \"micro_rows\": " << o.micro_rows
        << ", \"ms_per_step\": " << o.ms_per_step << ", \"tokens_per_second\": " << o.tokens_per_second
        << ", \"tflops\": " << o.tflops << ", \"ceiling_tflops\": " << o.ceiling_tflops
        << ", \"share\": " << o.tflops / o.ceiling_tflops << ", \"losses\": [";
    for (std::size_t k = 0; k < o.losses.size(); ++k) out << (k != 0 ? ", " : "") << o.losses[k];
    out << "]}";
  }
  out << "]}\n";
}

/// The table with --memory: one that refuses what is larger, as a GPU would.
troupe::kernels::cuda::Table limited(troupe::kernels::cuda::Table table, std::size_t memory) {
  static std::size_t largest;
  static int (*allocate)(void**, std::size_t);
  largest = memory;
  allocate = table.allocate;
  table.allocate = [](void** to, std::size_t bytes) { return bytes > largest ? 2 : allocate(to, bytes); };
  return table;
}

int skip(const std::string& why) {
  std::printf("skipped: %s\n", why.c_str());
  return kSkip;
}

int run(const Options& options) {
  if (!std::filesystem::exists(options.plugin)) return skip("the CUDA plug-in was not built: no " + options.plugin);
  const auto& whole = *troupe::kernels::cuda::cuda_table_of(options.plugin.c_str()).value();
  const auto table = limited(whole, options.memory);
  const Cuda cuda(table);
  int count = 0;
  cuda.check(cuda->device_count(&count), "device_count");
  if (count == 0) return skip("no GPU, or no driver");
  const std::string device = describe_and_open_products(cuda);
  const Setup& setup = options.small ? kSmall : kLarge;
  const GptShape shape(setup.model);
  std::printf("%s\nGPT with %zu parameters, context %zu\n", device.c_str(), shape.parameter_count(), setup.model.time);
  const Ceilings ceilings = measure_ceilings(Gpu(whole), !options.small);
  std::vector<float> start(shape.parameter_count());
  shape.initialize<float>(1, start);
  const Data data = random_data(setup);
  std::vector<Outcome> outcomes;
  for (const Precision precision : {Precision::kFloat, Precision::kBFloat16}) {
    outcomes.push_back(train(cuda, shape, start, setup, data, precision, ceilings));
    write_json(options.json, device, setup, shape, outcomes);
  }
  return right(outcomes, setup) ? 0 : 1;
}

}  // namespace

int main_with(int count, char** words) {
  Options options;
  options.plugin = (std::filesystem::canonical("/proc/self/exe").parent_path() / "libtroupe_cuda.so").string();
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--small") options.small = true;
    else if (word == "--plugin" && i + 1 < count) options.plugin = words[++i];
    else if (word == "--json" && i + 1 < count) options.json = words[++i];
    else if (word == "--memory" && i + 1 < count) options.memory = std::strtoull(words[++i], nullptr, 10);
    else {
      std::fprintf(stderr,
                   "gpu_gpt: what is %s?\nusage: gpu_gpt [--plugin FILE] [--small] [--memory BYTES] [--json FILE]\n",
                   word.c_str());
      return 2;
    }
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
  }
}

}  // namespace gpu_test

int main(int count, char** words) { return gpu_test::main_with(count, words); }
