#include "tests/gpu/gpt_training.h"

namespace gpu_test {

using namespace troupe::train;
using troupe::kernels::cuda::Table;

namespace {
constexpr std::size_t kNormBlock = 4096;  // elements of a block of global_norm
}

GptTraining::GptTraining(const Cuda& cuda, const GptShape& shape, std::span<const float> start,
                         const TrainingOptions& options)
    : cuda_(cuda),
      shape_(shape),
      options_(options),
      model_(cuda, shape, {.precision = options.precision, .repeatable = false}),
      params_(cuda, start.size()),
      grads_(cuda, start.size()),
      first_(cuda, start.size()),
      second_(cuda, start.size()),
      block_sums_(cuda, start.size() / kNormBlock + 1),
      norm_(cuda, 2),
      tokens_(cuda, options.micro_rows * shape.options().time),
      targets_(cuda, options.micro_rows * shape.options().time) {
  cuda.copy(params_.data(), start.data(), start.size_bytes());
  for (const DeviceBuffer<float>* moment : {&first_, &second_}) cuda.zero(moment->data(), start.size_bytes());
  if (options.precision == Precision::kBFloat16) {
    working_ = DeviceBuffer<std::uint16_t>(cuda, start.size());
    device_narrow(cuda, working_.data(), params_.data(), start.size());
  }
  model_.reserve(options.micro_rows);
  cuda.wait();
}

double GptTraining::step(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) {
  const std::size_t time = shape_.options().time, rows = tokens.size() / time;
  cuda_.zero(grads_.data(), grads_.size() * sizeof(float));
  double sum = 0;
  for (std::size_t first = 0; first < rows; first += options_.micro_rows) {  // GT-1
    const std::size_t count = std::min(options_.micro_rows, rows - first), bytes = count * time * sizeof(std::int32_t);
    cuda_.copy(tokens_.data(), tokens.data() + first * time, bytes);
    cuda_.copy(targets_.data(), targets.data() + first * time, bytes);
    model_.step(count, tokens_.data(), targets_.data(),
                {.values = params_.data(), .working = working_.data(), .gradients = grads_.data()},
                static_cast<double>(tokens.size()), {});
    if (first + count == rows) update();
    sum += model_.loss().sum;
  }
  return sum / static_cast<double>(tokens.size());
}

void GptTraining::update() {
  cuda_.run("global_norm", &Table::global_norm, grads_.data(), grads_.size(), options_.max_norm, block_sums_.data(),
            norm_.data());
  std::vector<troupe::kernels::cuda::AdamwTensor> tensors;
  for (const Tensor& t : shape_.layout())
    tensors.push_back({.params = params_.data() + t.offset,
                       .grads = grads_.data() + t.offset,
                       .first_moment = first_.data() + t.offset,
                       .second_moment = second_.data() + t.offset,
                       .working_copy = working_.size() != 0 ? working_.data() + t.offset : nullptr,  // GT-2
                       .count = t.size,
                       .decayed = t.decayed ? 1u : 0u});
  const troupe::kernels::cuda::AdamwArguments a{.tensors = tensors.data(),
                                                .tensor_count = tensors.size(),
                                                .step = ++done_,
                                                .learning_rate = options_.rate,
                                                .beta1 = 0.9,
                                                .beta2 = 0.95,
                                                .epsilon = 1e-8,
                                                .weight_decay = options_.weight_decay,
                                                .grad_scale = 1,
                                                .device_scale = norm_.data() + 1};
  cuda_.run("adamw", &Table::adamw, &a);
}

}  // namespace gpu_test
