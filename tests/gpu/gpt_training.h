// GptTraining: a GPT trained with everything on the GPU: parameters, moments and gradients, forward, backward, clip by
// the global norm, AdamW with float master weights. The host sends tokens and hears the loss.
//
// GT-1  An update is that of the whole batch, whatever the micro-batch: gradients accumulate, the divisor is that of
//       the batch.
// GT-2  With bfloat16 products the weights' working copies are those that AdamW wrote; the master weights stay float.
// One thread.
#pragma once

#include <span>

#include "apps/train/model/gpt_device.h"

namespace gpu_test {

struct TrainingOptions {
  troupe::train::Precision precision = troupe::train::Precision::kFloat;
  std::size_t micro_rows = 1;
  double rate = 3e-4, max_norm = 1, weight_decay = 0.1;
};

class GptTraining {
 public:
  /// Takes all memory. OutOfMemoryError: there is not enough for so many rows.
  GptTraining(const troupe::train::Cuda& cuda, const troupe::train::GptShape& shape, std::span<const float> start,
              const TrainingOptions& options);

  /// One update. Host arrays of whole rows; returns the mean loss before it. Waits.
  double step(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets);

 private:
  void update();

  const troupe::train::Cuda& cuda_;
  const troupe::train::GptShape& shape_;
  TrainingOptions options_;
  troupe::train::GptDevice model_;
  troupe::train::DeviceBuffer<float> params_, grads_, first_, second_;
  troupe::train::DeviceBuffer<std::uint16_t> working_;  // bfloat16; empty with float products
  troupe::train::DeviceBuffer<double> block_sums_, norm_;
  troupe::train::DeviceBuffer<std::int32_t> tokens_, targets_;
  std::int64_t done_ = 0;
};

}  // namespace gpu_test
