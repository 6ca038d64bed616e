// LayeredNetwork: any specification, layer by layer, on the matrix product. Promises: NET-1 to NET-3, NET-5. One thread
// at a time.
#pragma once

#include <vector>

#include "apps/rl/networks/network.h"
#include "kernels/cpu/conv/conv.h"

namespace rl {

template <class T>
class LayeredNetwork final : public Network<T> {
 public:
  LayeredNetwork(const NetworkSpec& spec, troupe::kernels::Isa isa);

  [[nodiscard]] const NetworkSpec& spec() const override { return spec_; }
  void forward(std::span<const T> params, std::span<const T> x, std::span<T> y) override;
  void backward(std::span<const T> params, std::span<const T> dy, std::span<T> grads, std::span<T> dx) override;

 private:
  /// What one layer is, and what it keeps of the last batch.
  struct Layer {
    LayerPlace place;
    bool convolution = false, activated = true;
    troupe::kernels::ConvShape shape;  // but for the batch
    std::vector<T> patches, dpatches;
    std::vector<T> y, dy;              // [B][size]; the last layer's y is kept only when it is activated
    std::size_t size = 0;              // numbers of a row of y
  };

  NetworkSpec spec_;
  troupe::kernels::Isa isa_;
  std::vector<Layer> layers_;
  std::span<const T> x_;
  std::size_t batch_ = 0;
};

}  // namespace rl
