#include "apps/train/model/mlp.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "apps/train/model/draws.h"
#include "kernels/cpu/linear/matmul.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "kernels/cpu/rows/rows.h"

namespace troupe::train {

Status check(const MlpOptions& options) {
  if (options.sizes.size() < 2) return InvalidArgumentError("MLP: sizes name at least the inputs and the classes");
  if (std::find(options.sizes.begin(), options.sizes.end(), 0u) != options.sizes.end())
    return InvalidArgumentError("MLP: every size is at least 1");
  return {};
}

template <class T>
Mlp<T>::Mlp(const MlpOptions& options, kernels::Isa isa) : options_(options), isa_(isa) {
  check(options).value();
  std::size_t end = 0;
  for (std::size_t i = 0; i < layers(); ++i) {
    const std::size_t in = options_.sizes[i], out = options_.sizes[i + 1];
    layout_.push_back(
        {.name = "w" + std::to_string(i), .shape = {out, in}, .offset = end, .size = out * in, .decayed = true});
    end += out * in;
    layout_.push_back({.name = "b" + std::to_string(i), .shape = {out}, .offset = end, .size = out, .decayed = true});
    end += out;
  }
  outputs_.resize(layers() + 1);
}

template <class T>
void Mlp<T>::initialize(std::uint64_t seed, std::span<T> parameters) const {
  if (parameters.size() != parameter_count())
    throw InvalidArgumentError("MLP: not as many parameters as the layout has");
  Draws draws(seed);
  for (const Tensor& tensor : layout_) {
    const std::size_t layer = static_cast<std::size_t>(&tensor - layout_.data()) / 2;
    const double bound = 1.0 / std::sqrt(static_cast<double>(options_.sizes[layer]));
    for (T& value : parameters.subspan(tensor.offset, tensor.size))
      value = static_cast<T>(draws.uniform(-bound, bound));
  }
}

template <class T>
double Mlp<T>::step_flops(std::size_t rows) const {
  double weights = 0;
  for (std::size_t i = 0; i < layers(); ++i) weights += static_cast<double>(options_.sizes[i] * options_.sizes[i + 1]);
  // The input needs no gradient.
  const double products = 3 * weights - static_cast<double>(options_.sizes[0] * options_.sizes[1]);
  return 2 * static_cast<double>(rows) * products;
}

template <class T>
void Mlp<T>::check_batch(const Batch& batch, std::size_t parameters) const {
  if (parameters != parameter_count())
    throw InvalidArgumentError("MLP: " + std::to_string(parameters) + " parameters given, the layout has " +
                               std::to_string(parameter_count()));
  if (batch.features.size() != batch.rows * options_.sizes[0] || batch.targets.size() != batch.rows)
    throw InvalidArgumentError("MLP: " + std::to_string(batch.rows) + " rows of " + std::to_string(options_.sizes[0]) +
                               " inputs, but " + std::to_string(batch.features.size()) + " features and " +
                               std::to_string(batch.targets.size()) + " targets");
  for (const std::int32_t target : batch.targets) {
    if (target >= 0 && static_cast<std::size_t>(target) >= classes())
      throw InvalidArgumentError("MLP: target " + std::to_string(target) + " is none of " + std::to_string(classes()) +
                                 " classes");
  }
}

template <class T>
void Mlp<T>::activate(T* values, std::size_t count) const {
  if (options_.activation == Activation::kRelu) {
    for (std::size_t i = 0; i < count; ++i) values[i] = values[i] < T{0} ? T{0} : values[i];  // NaN stays
  } else if constexpr (std::is_same_v<T, float>) {
    kernels::tanh_array(isa_, {values, count}, {values, count});
  } else {
    for (std::size_t i = 0; i < count; ++i) values[i] = std::tanh(values[i]);
  }
}

// Both slopes follow from the output alone.
template <class T>
void Mlp<T>::activate_back(const T* outputs, T* gradients, std::size_t count) const {
  if (options_.activation == Activation::kRelu) {
    for (std::size_t i = 0; i < count; ++i) gradients[i] = outputs[i] <= T{0} ? T{0} : gradients[i];
  } else {
    for (std::size_t i = 0; i < count; ++i) gradients[i] *= T{1} - outputs[i] * outputs[i];
  }
}

template <class T>
void Mlp<T>::forward(const Batch& batch, const T* parameters) {
  for (std::size_t i = 0; i <= layers(); ++i)
    outputs_[i].resize(std::max(outputs_[i].size(), batch.rows * options_.sizes[i]));
  std::copy(batch.features.begin(), batch.features.end(), outputs_[0].begin());
  for (std::size_t i = 0; i < layers(); ++i) {
    kernels::linear_forward<T>(isa_, {batch.rows, options_.sizes[i], options_.sizes[i + 1]}, outputs_[i].data(),
                               parameters + layout_[2 * i].offset, parameters + layout_[2 * i + 1].offset,
                               outputs_[i + 1].data());
    if (i + 1 < layers()) activate(outputs_[i + 1].data(), batch.rows * options_.sizes[i + 1]);
  }
}

template <class T>
Loss Mlp<T>::loss(const Batch& batch, T* dlogits, double divisor) {
  const T* logits = outputs_.back().data();
  Loss out;
  for (std::size_t r = 0; r < batch.rows; ++r) {
    const T* row = logits + r * classes();
    const auto best = std::max_element(row, row + classes()) - row;
    out.correct += batch.targets[r] >= 0 && best == batch.targets[r] ? 1 : 0;
  }
  const auto result = kernels::cross_entropy<T>(isa_, {batch.rows, classes()}, logits, batch.targets.data(),
                                                {.dlogits = dlogits, .divisor = divisor});
  out.sum = result.loss_sum;
  out.counted = result.counted;
  return out;
}

template <class T>
Loss Mlp<T>::step(const Batch& batch, std::span<const T> parameters, std::span<T> gradients, double divisor,
                  const FinalFrom& final_from) {
  check_batch(batch, parameters.size());
  if (gradients.size() != parameter_count() || !(divisor > 0))
    throw InvalidArgumentError("MLP: a step wants as many gradients as parameters and a divisor above 0");
  const auto tell = [&](std::size_t offset) {
    if (final_from) final_from(offset);
  };
  if (batch.rows == 0) {
    tell(0);
    return {};
  }
  const std::size_t widest = *std::max_element(options_.sizes.begin(), options_.sizes.end());
  gradient_.resize(std::max(gradient_.size(), batch.rows * widest));
  next_gradient_.resize(gradient_.size());
  forward(batch, parameters.data());
  const Loss out = loss(batch, gradient_.data(), divisor);
  for (std::size_t i = layers(); i-- > 0;) {
    const Tensor &weight = layout_[2 * i], &bias = layout_[2 * i + 1];
    kernels::linear_backward<T>(isa_, {batch.rows, options_.sizes[i], options_.sizes[i + 1]}, outputs_[i].data(),
                                parameters.data() + weight.offset, gradient_.data(),
                                {.dx = i == 0 ? nullptr : next_gradient_.data(),
                                 .dw = gradients.data() + weight.offset,
                                 .dbias = gradients.data() + bias.offset});
    tell(weight.offset);
    if (i == 0) break;
    activate_back(outputs_[i].data(), next_gradient_.data(), batch.rows * options_.sizes[i]);
    std::swap(gradient_, next_gradient_);
  }
  return out;
}

template <class T>
Loss Mlp<T>::evaluate(const Batch& batch, std::span<const T> parameters) {
  check_batch(batch, parameters.size());
  if (batch.rows == 0) return {};
  forward(batch, parameters.data());
  return loss(batch, nullptr, 1);
}

template class Mlp<float>;
template class Mlp<double>;

}  // namespace troupe::train
