// CudaGpt: a GPT on a GPU behind the contract of Model: parameters and gradients are the host's, as the trainer, its
// buckets and its checkpoints want them; what lies between is done by GptDevice (gpt_device.h) in float.
//
// A step sends the parameters to the GPU and fetches the gradients of one block after the other from the end, so that
// their buckets are reduced while the GPU works on the blocks before:
//
//   GPU    forward, head | block L-1 | block L-2 | ...
//   host                             | fetch, then add L-1 and tell final_from | fetch, add L-2 ...
//
// What that costs: all parameters and all gradients cross the bus in every micro-batch.
//
// Invariants
//   CG-1  The layout, the start, the checks and their errors are those of Gpt (GptShape).
//   CG-2  A step equals that of Gpt<float> up to rounding: tests/gpu/cuda_gpt_test.cc.
// Thread rule: as Model; the thread's GPU is set at every call.
#pragma once
#include <string>
#include <vector>

#include "apps/train/model/gpt_device.h"

namespace troupe::train {

class CudaGpt final : public Model<float> {
 public:
  /// Throws InvalidArgumentError for options that cannot be, and as CU-1. No memory is taken before the first batch.
  CudaGpt(const GptOptions& options, const kernels::cuda::Table& table, int device = 0,
          std::size_t head_logits = GptDeviceOptions{}.head_logits);

  const Layout& layout() const override { return shape_.layout(); }
  std::size_t parameter_count() const override { return shape_.parameter_count(); }
  void initialize(std::uint64_t seed, std::span<float> parameters) const override {
    shape_.initialize(seed, parameters);
  }
  Loss step(const Batch& batch, std::span<const float> parameters, std::span<float> gradients, double divisor,
            const FinalFrom& final_from) override;
  Loss evaluate(const Batch& batch, std::span<const float> parameters) override;
  double step_flops(std::size_t rows) const override { return shape_.step_flops(rows); }

  /// The GPU, and what multiplies there (cuda.h).
  const std::string& description() const { return description_; }
  /// Of the last step or evaluate, with its parameters: [rows][time][vocab].
  void logits(std::span<float> out) const;

 private:
  void send(const Batch& batch, std::span<const float> parameters);

  GptShape shape_;
  Cuda cuda_;
  std::string description_;
  GptDevice device_;
  DeviceBuffer<float> parameters_, gradients_;
  DeviceBuffer<std::int32_t> tokens_, targets_;
  std::vector<float> fetched_;  // a part of the gradients, between GPU and addition
};

}  // namespace troupe::train
