// DeviceNetwork: convolutions and linear layers on a GPU, through the kernels' plug-in (kernels/cuda/cuda.h).
//
// What is the caller's stays in host memory: rows and slopes go up, outputs and gradients come down in each call, which
// returns when they are there. Parameters go up when they differ from those that are there: optimizers change them on
// the host, behind this class's back, so they are compared with a copy, which costs less than sending them.
//
// Promises: NET-1 to NET-3, NET-5, NET-7, NET-9. One thread at a time, any thread: each call makes the GPU that of its
// thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "apps/rl/networks/network.h"

namespace rl {

class DeviceNetwork final : public Network<float> {
 public:
  /// Memory is taken by the first calls.
  DeviceNetwork(const NetworkSpec& spec, const Gpu& gpu);

  [[nodiscard]] const NetworkSpec& spec() const override { return spec_; }
  void forward(std::span<const float> params, std::span<const float> x, std::span<float> y) override;
  void backward(std::span<const float> params, std::span<const float> dy, std::span<float> grads,
                std::span<float> dx) override;

 private:
  template <class T>
  using DeviceBuffer = troupe::kernels::cuda::DeviceBuffer<T>;
  struct Layer {
    LayerPlace place;
    bool activated = true;
    std::optional<troupe::kernels::cuda::PatchArguments> images = {};  // of a convolution; but for batch and memory
    std::size_t pixels = 1;                                            // outputs of a row of x, `out` numbers each
    DeviceBuffer<float> y = {}, dy = {};                               // [rows][pixels][out]
    DeviceBuffer<float> patches = {}, dpatches = {};                   // [rows][pixels][in]

    [[nodiscard]] std::size_t size() const { return pixels * place.out; }
  };

  void upload_parameters(std::span<const float> params);
  /// Room for so many numbers; what they were is lost when there was less.
  float* room(DeviceBuffer<float>& buffer, std::size_t count) const;
  void multiply(const troupe::kernels::cuda::MatmulArguments& product) const;
  /// What layer `index` multiplies by its weights in forward(): its patches, or the y before it, or x.
  [[nodiscard]] const float* factor_of(std::size_t index) const {
    if (layers_[index].images) return layers_[index].patches.data();
    return index == 0 ? x_.data() : layers_[index - 1].y.data();
  }
  void forward_layer(std::size_t index);
  /// Its gradients, where grads_ has them, in grads_; the slopes of what it saw in `dx`, null: not wanted.
  void backward_layer(std::size_t index, bool with_gradients, DeviceBuffer<float>* dx);

  NetworkSpec spec_;
  Gpu gpu_;
  std::size_t parameters_;
  std::vector<float> uploaded_;  // what params_ holds; empty: nothing yet
  DeviceBuffer<float> params_, grads_, x_, dx_;
  std::vector<Layer> layers_;
  std::size_t rows_ = 0;
};

}  // namespace rl
