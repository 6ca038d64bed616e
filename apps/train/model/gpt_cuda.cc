#include "apps/train/model/gpt_cuda.h"

#include <algorithm>

namespace troupe::train {
namespace {

/// Fetches gradients part by part from the end, and adds each while the GPU works on the next.
class Fetching {
 public:
  Fetching(const Cuda& cuda, const float* device, std::vector<float>& fetched, std::span<float> gradients,
           const FinalFrom& final_from)
      : cuda_(cuda),
        device_(device),
        fetched_(fetched),
        gradients_(gradients),
        final_from_(final_from),
        end_(gradients.size()),
        from_(gradients.size()) {}

  /// Everything at or after `from` is enqueued.
  void fetch(std::size_t from) {
    add();  // what came before, now that the GPU has the next work
    end_ = from_;
    from_ = from;
    fetched_.resize(std::max(fetched_.size(), end_ - from_));
    cuda_.copy(fetched_.data(), device_ + from_, (end_ - from_) * sizeof(float));
    cuda_.wait();
  }
  void add() {
    if (from_ == end_) return;
    for (std::size_t i = from_; i < end_; ++i) gradients_[i] += fetched_[i - from_];  // MD-1
    end_ = from_;
    if (final_from_) final_from_(from_);  // MD-3
  }

 private:
  const Cuda& cuda_;
  const float* device_;
  std::vector<float>& fetched_;
  std::span<float> gradients_;
  const FinalFrom& final_from_;
  std::size_t end_, from_;  // of the part in hand
};

}  // namespace

CudaGpt::CudaGpt(const GptOptions& options, const kernels::cuda::Table& table, int device, std::size_t head_logits)
    : shape_(options),
      cuda_(table, device),
      description_(describe_and_open_products(cuda_)),
      device_(cuda_, shape_, {.head_logits = head_logits}) {}

// Parameters, tokens and targets.
void CudaGpt::send(const Batch& batch, std::span<const float> parameters) {
  cuda_.use();
  if (parameters_.size() == 0) parameters_ = DeviceBuffer<float>(cuda_, parameters.size());
  for (DeviceBuffer<std::int32_t>* ids : {&tokens_, &targets_})
    if (ids->size() < batch.tokens.size()) *ids = DeviceBuffer<std::int32_t>(cuda_, batch.tokens.size());
  cuda_.copy(parameters_.data(), parameters.data(), parameters.size_bytes());
  cuda_.copy(tokens_.data(), batch.tokens.data(), batch.tokens.size_bytes());
  cuda_.copy(targets_.data(), batch.targets.data(), batch.targets.size_bytes());
}

Loss CudaGpt::step(const Batch& batch, std::span<const float> parameters, std::span<float> gradients, double divisor,
                   const FinalFrom& final_from) {
  shape_.check_batch(batch, parameters.size());
  shape_.check_gradients(gradients.size(), divisor);
  if (batch.rows == 0) {
    if (final_from) final_from(0);
    return {};
  }
  send(batch, parameters);
  if (gradients_.size() == 0) gradients_ = DeviceBuffer<float>(cuda_, gradients.size());
  cuda_.zero(gradients_.data(), gradients.size_bytes());
  Fetching fetching(cuda_, gradients_.data(), fetched_, gradients, final_from);
  device_.step(batch.rows, tokens_.data(), targets_.data(),
               {.values = parameters_.data(), .working = nullptr, .gradients = gradients_.data()}, divisor,
               [&](std::size_t offset) { fetching.fetch(offset); });
  const Loss loss = device_.loss();
  fetching.add();
  return loss;
}

Loss CudaGpt::evaluate(const Batch& batch, std::span<const float> parameters) {
  shape_.check_batch(batch, parameters.size());
  if (batch.rows == 0) return {};
  send(batch, parameters);
  device_.step(batch.rows, tokens_.data(), targets_.data(),
               {.values = parameters_.data(), .working = nullptr, .gradients = nullptr}, 1, {});
  return device_.loss();
}

void CudaGpt::logits(std::span<float> out) const {
  cuda_.use();
  device_.logits({.values = parameters_.data(), .working = nullptr, .gradients = nullptr}, out);
}

}  // namespace troupe::train
