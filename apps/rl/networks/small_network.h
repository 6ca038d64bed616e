// SmallNetwork: two hidden layers of tanh units on the kernel of kernels/cpu/mlp, which keeps its activations where its
// registers want them. Promises: NET-1 to NET-4. One thread at a time.
#pragma once

#include "apps/rl/networks/network.h"
#include "kernels/cpu/mlp/mlp.h"

namespace rl {

template <class T>
class SmallNetwork final : public Network<T> {
 public:
  [[nodiscard]] static bool can(const NetworkSpec& spec) {
    return spec.convolutions.empty() && spec.hidden.size() == 2 && spec.activation == Activation::kTanh &&
           spec.outputs != 0 && !spec.gsde_first_log_std && spec.hidden[0] <= kSmallLayer &&
           spec.hidden[1] <= kSmallLayer;
  }
  SmallNetwork(const NetworkSpec& spec, troupe::kernels::Isa isa)
      : spec_(spec),
        isa_(isa),
        tape_({.inputs = spec.inputs(), .hidden1 = spec.hidden[0], .hidden2 = spec.hidden[1],
               .outputs = spec.outputs}) {}

  [[nodiscard]] const NetworkSpec& spec() const override { return spec_; }
  void forward(std::span<const T> params, std::span<const T> x, std::span<T> y) override {
    troupe::kernels::mlp_forward<T>(isa_, params, x, tape_, y);
  }
  void backward(std::span<const T> params, std::span<const T> dy, std::span<T> grads, std::span<T> /*dx*/) override {
    troupe::kernels::mlp_backward<T>(isa_, params, dy, tape_, grads);
  }

 private:
  NetworkSpec spec_;
  troupe::kernels::Isa isa_;
  troupe::kernels::MlpTape<T> tape_;
};

}  // namespace rl
