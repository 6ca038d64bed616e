// ColumnNetwork: linear layers whose activations lie as [units][rows of x]: a row of x is a column of every layer.
//
// Why it is faster than LayeredNetwork: products then read the weights where they lie. What they have to arrange
// grows with the rows, of which a minibatch has few, and not with the square of the units. Rows are taken kPart at a
// time through all layers, so that what they leave stays in the caches, and rows of a matrix stay near each other.
//
// A single row goes through products of a matrix and a vector, whose sums are rounded in another order: the numbers of
// a row differ in their last bits between a batch of one and a larger one.
//
// Promises: NET-1 to NET-3, NET-5 to NET-7. One thread at a time.
#pragma once

#include <vector>

#include "apps/rl/networks/network.h"

namespace rl {

template <class T>
class ColumnNetwork final : public Network<T> {
 public:
  [[nodiscard]] static bool can(const NetworkSpec& spec) { return spec.convolutions.empty(); }
  ColumnNetwork(const NetworkSpec& spec, troupe::kernels::Isa isa);

  [[nodiscard]] const NetworkSpec& spec() const override { return spec_; }
  void forward(std::span<const T> params, std::span<const T> x, std::span<T> y) override;
  void backward(std::span<const T> params, std::span<const T> dy, std::span<T> grads, std::span<T> dx) override;

 private:
  struct Layer {
    LayerPlace place;
    bool activated = true;
    std::vector<T> y;   // part after part, each [units][rows of the part]
    std::vector<T> dy;  // of one part
  };
  struct Part {
    std::size_t begin, rows;
  };
  [[nodiscard]] std::vector<Part> parts() const;
  void forward_row(std::span<const T> params, std::span<T> y);
  void forward_part(std::span<const T> params, const Part& part, std::span<T> y);
  void backward_part(std::span<const T> params, const Part& part, std::span<const T> dy, std::span<T> grads,
                     std::span<T> dx);
  /// NET-7: for those rows of the part whose dy is not 0.
  void input_slopes(std::span<const T> params, const Part& part, std::span<const T> dy, std::span<T> dx);
  /// What layer `index` gave for that part.
  [[nodiscard]] T* given(std::size_t index, const Part& part) {
    return layers_[index].y.data() + part.begin * layers_[index].place.out;
  }

  NetworkSpec spec_;
  troupe::kernels::Isa isa_;
  std::vector<Layer> layers_;
  std::span<const T> x_;
  std::size_t rows_ = 0;
  std::vector<std::size_t> picked_;        // rows of a part
  std::vector<T> picked_y_, picked_dx_;
};

}  // namespace rl
