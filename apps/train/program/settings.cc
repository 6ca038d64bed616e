#include "apps/train/program/settings.h"

#include <algorithm>

namespace troupe::train {

TrainerOptions trainer_options(const RunSettings& run) {
  const std::int64_t decay_steps = run.decay_steps > 0 ? run.decay_steps : run.steps;
  TrainerOptions options;
  options.seed = run.seed;
  options.micro_rows = run.micro_rows;
  options.zero = run.zero;
  if (run.bucket_bytes > 0) options.buckets = {.first_bytes = run.bucket_bytes, .bytes = run.bucket_bytes};
  options.optimizer = run.optimizer;
  options.schedule = {.base_rate = run.rate,
                      .warmup_steps = run.warmup >= 0 ? run.warmup : std::min<std::int64_t>(100, decay_steps / 20),
                      .decay = run.decay,
                      .minimum = run.decay == Decay::kCosine ? run.rate_min : 0,
                      .decay_steps = run.decay == Decay::kCosine ? decay_steps : 0};
  if (run.reference_batch > 0) {
    options.schedule.batch = static_cast<double>(run.batch);
    options.schedule.reference_batch = static_cast<double>(run.reference_batch);
    options.schedule.warm_up = WarmUp::kGradual;
  }
  options.max_norm = run.max_norm;
  return options;
}

MlpSettings mlp_defaults() {
  MlpSettings out;
  out.run.steps = 300;
  out.run.batch = 50;
  out.run.optimizer = {.rule = Rule::kSgd, .momentum = 0.9, .weight_decay = 0};
  out.run.rate = 0.05;
  out.run.rate_min = 0;
  out.run.warmup = 0;
  out.run.decay = Decay::kConstant;
  out.run.max_norm = 0;
  out.run.evaluate_every = 30;  // an epoch
  out.run.checkpoint_every = 100;
  return out;
}

}  // namespace troupe::train
