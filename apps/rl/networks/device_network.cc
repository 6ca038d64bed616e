#include "apps/rl/networks/device_network.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rl {

using troupe::kernels::cuda::MatmulArguments;
using troupe::kernels::cuda::PatchArguments;
using troupe::kernels::cuda::Table;

namespace {

constexpr auto kFloat = troupe::kernels::DType::kF32;

}  // namespace

DeviceNetwork::DeviceNetwork(const NetworkSpec& spec, const Gpu& gpu)
    : spec_(spec), gpu_(gpu), parameters_(spec.parameter_count()) {
  for (LayerPlace& place : layers_of(spec)) layers_.push_back({.place = std::move(place)});
  layers_.back().activated = spec.outputs == 0;
  if (spec.convolutions.empty()) return;
  std::size_t height = spec.input[0], width = spec.input[1], channels = spec.input[2];
  for (std::size_t i = 0; i < spec.convolutions.size(); ++i) {
    const Convolution& c = spec.convolutions[i];
    layers_[i].images = {.batch = 0, .height = height, .width = width, .channels = channels, .kernel = c.kernel,
                         .stride = c.stride, .in = nullptr, .out = nullptr};
    height = (height - c.kernel) / c.stride + 1, width = (width - c.kernel) / c.stride + 1, channels = c.filters;
    layers_[i].pixels = height * width;
  }
}

float* DeviceNetwork::room(DeviceBuffer<float>& buffer, std::size_t count) const {
  if (buffer.size() < count) {
    buffer = {};  // gives its memory back before more is asked for
    buffer = DeviceBuffer<float>(gpu_, count);
  }
  return buffer.data();
}

void DeviceNetwork::upload_parameters(std::span<const float> params) {
  params = params.first(parameters_);
  if (uploaded_.size() == params.size() && std::memcmp(uploaded_.data(), params.data(), params.size_bytes()) == 0)
    return;
  uploaded_.clear();  // should it fail
  gpu_.copy(room(params_, params.size()), params.data(), params.size_bytes());
  uploaded_.assign(params.begin(), params.end());
}

void DeviceNetwork::multiply(const MatmulArguments& product) const { gpu_.run("matmul", &Table::matmul, &product); }

void DeviceNetwork::forward(std::span<const float> params, std::span<const float> x, std::span<float> y) {
  rows_ = x.size() / spec_.inputs();
  if (rows_ == 0) return;
  gpu_.use();
  upload_parameters(params);
  gpu_.copy(room(x_, x.size()), x.data(), x.size_bytes());
  for (std::size_t i = 0; i < layers_.size(); ++i) forward_layer(i);
  gpu_.copy(y.data(), layers_.back().y.data(), rows_ * layers_.back().size() * sizeof(float));
  gpu_.wait();
}

void DeviceNetwork::forward_layer(std::size_t index) {
  Layer& layer = layers_[index];
  const auto [units, in] = std::pair(layer.place.out, layer.place.in);
  const std::size_t rows = rows_ * layer.pixels;
  if (layer.images) {
    PatchArguments patches = *layer.images;
    patches.batch = rows_;
    patches.in = index == 0 ? x_.data() : layers_[index - 1].y.data();
    patches.out = room(layer.patches, rows * in);
    gpu_.run("patches_forward", &Table::patches_forward, &patches);
  }
  float* out = room(layer.y, rows * units);
  multiply({.m = rows, .n = units, .k = in, .a = factor_of(index), .b = params_.data() + layer.place.weights,
            .a_stride = in, .b_stride = in, .a_transposed = false, .b_transposed = true, .c = out, .c_stride = units,
            .accumulate = false, .bias = params_.data() + layer.place.biases, .type = kFloat});
  if (layer.activated)
    gpu_.run("activation_forward", &Table::activation_forward, spec_.activation, rows * units, out, out);
}

void DeviceNetwork::backward(std::span<const float> /*params*/, std::span<const float> dy, std::span<float> grads,
                             std::span<float> dx) {
  if (!grads.empty()) grads = grads.first(parameters_);
  if (rows_ == 0) {
    std::ranges::fill(grads, 0.0f);
    return;
  }
  gpu_.use();
  gpu_.copy(room(layers_.back().dy, dy.size()), dy.data(), dy.size_bytes());
  if (!grads.empty()) gpu_.zero(room(grads_, grads.size()), grads.size_bytes());  // biases are added to
  for (std::size_t i = layers_.size(); i-- > 0;) {
    DeviceBuffer<float>* const into = i != 0 ? &layers_[i - 1].dy : dx.empty() ? nullptr : &dx_;
    backward_layer(i, !grads.empty(), into);
  }
  if (!grads.empty()) gpu_.copy(grads.data(), grads_.data(), grads.size_bytes());
  if (!dx.empty()) gpu_.copy(dx.data(), dx_.data(), dx.size_bytes());
  gpu_.wait();
}

void DeviceNetwork::backward_layer(std::size_t index, bool with_gradients, DeviceBuffer<float>* dx) {
  Layer& layer = layers_[index];
  const auto [units, in] = std::pair(layer.place.out, layer.place.in);
  const std::size_t rows = rows_ * layer.pixels;
  float* slope = layer.dy.data();
  if (layer.activated)
    gpu_.run("activation_backward", &Table::activation_backward, spec_.activation, rows * units, layer.y.data(),
             slope, slope);
  if (with_gradients) {
    multiply({.m = units, .n = in, .k = rows, .a = slope, .b = factor_of(index), .a_stride = units, .b_stride = in,
              .a_transposed = true, .b_transposed = false, .c = grads_.data() + layer.place.weights, .c_stride = in,
              .accumulate = false, .bias = nullptr, .type = kFloat});
    gpu_.run("bias_backward", &Table::bias_backward, rows, units, slope, grads_.data() + layer.place.biases);
  }
  if (dx == nullptr) return;
  float* out = room(layer.images ? layer.dpatches : *dx, rows * in);
  multiply({.m = rows, .n = in, .k = units, .a = slope, .b = params_.data() + layer.place.weights,
            .a_stride = units, .b_stride = in, .a_transposed = false, .b_transposed = false, .c = out, .c_stride = in,
            .accumulate = false, .bias = nullptr, .type = kFloat});
  if (!layer.images) return;
  PatchArguments patches = *layer.images;
  patches.batch = rows_;
  patches.in = out;
  patches.out = room(*dx, rows_ * patches.height * patches.width * patches.channels);
  gpu_.run("patches_backward", &Table::patches_backward, &patches);
}

}  // namespace rl
