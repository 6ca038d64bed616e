// Settings of a training run: plain values that travel from the command line to the ranks. Defaults are the published
// small-CPU recipe of the character GPT, and the recorded run of the digits MLP.
//
// Thread rule: plain values.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <troupe/duration.h>

#include "apps/train/model/mlp.h"
#include "apps/train/trainer/trainer.h"

namespace troupe::train {

enum class Device : std::uint8_t { kCpu, kCuda };

/// What both models have.
struct RunSettings {
  std::uint64_t seed = 1;
  int workers = 2;
  Device device = Device::kCpu;   ///< kCuda: a GPU for each rank; GPT only
  std::int64_t steps = 2000;
  std::uint64_t batch = 12;       ///< rows of the global batch
  std::uint64_t micro_rows = 0;   ///< rows of a micro-batch at most; 0: all at once
  Zero zero = Zero::k0;
  OptimizerOptions optimizer = {.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1};
  double rate = 1e-3, rate_min = 1e-4;
  std::uint64_t reference_batch = 0;  ///< above 0: the rate is scaled by batch / reference_batch, with gradual warm-up
  std::int64_t warmup = -1;       ///< steps; -1: a twentieth of the decay, at most 100
  std::int64_t decay_steps = 0;   ///< of the cosine; 0: `steps`
  Decay decay = Decay::kCosine;
  double max_norm = 1;
  std::uint64_t bucket_bytes = 0; ///< 0: as the library has it
  std::int64_t evaluate_every = 250, commit_every = 50, checkpoint_every = 250;
  std::string checkpoints = {};   ///< folder; empty: none
  std::uint64_t keep_last = 2;
  bool resume = false;
  /// seconds that the ranks wait for a slow one; one that is dead or frozen is noticed before
  double step_timeout = 1800;
  double heartbeat_timeout = 30;  ///< seconds without an answer, after which the driver takes a rank for frozen
  std::string data = {};
};

struct GptSettings {
  RunSettings run = {};
  std::uint64_t layers = 4, heads = 4, channels = 128, context = 64;
  bool bytes = false;                    ///< all 256 bytes are the vocabulary, not the characters of the text
  std::uint64_t validation_rows = 2400;  ///< fixed windows: 200 batches of the recipe
  std::string recorded = {};             ///< folder of a recorded run: its start, its batches, its validation windows
};

struct MlpSettings {
  RunSettings run = {};
  std::vector<std::uint64_t> hidden = {64, 32};
  Activation activation = Activation::kTanh;
};

using JobSettings = std::variant<GptSettings, MlpSettings>;

inline const RunSettings& run_of(const JobSettings& job) {
  return std::visit([](const auto& settings) -> const RunSettings& { return settings.run; }, job);
}
inline RunSettings& run_of(JobSettings& job) {
  return std::visit([](auto& settings) -> RunSettings& { return settings.run; }, job);
}

/// A duration given in seconds.
inline Duration seconds(double count) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(count));
}

/// InvalidArgumentError where the settings cannot be together.
TrainerOptions trainer_options(const RunSettings& run);

/// The defaults of the program `mlp`: 10 epochs of the recorded run (tanh, SGD).
MlpSettings mlp_defaults();

}  // namespace troupe::train
