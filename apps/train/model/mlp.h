// Mlp: a perceptron of any depth, softmax cross-entropy on top, forward and backward written by hand.
//
// Parameters lie in the order w0 b0 w1 b1 ..., weights [out][in]. Hidden layers go through the activation, the last
// does not. Weight decay applies to all of them, as in the recorded runs: biases are few here, and the rule stays one
// line. Memory is allocated at the first batch and again only when a batch has more rows than any before.
//
// Invariants
//   MLP-1  A step equals the recorded one: tests/train/golden_mlp_test.cc.
//   MLP-2  relu's slope at 0 is 0.
// Thread rule: as Model.
#pragma once
#include <cstdint>
#include <vector>

#include <troupe/result.h>

#include "apps/train/model/model.h"
#include "kernels/cpu/isa/isa.h"

namespace troupe::train {

enum class Activation : std::uint8_t { kTanh, kRelu };

struct MlpOptions {
  std::vector<std::size_t> sizes = {64, 64, 32, 10};  ///< inputs, hidden layers, classes
  Activation activation = Activation::kTanh;
};

/// InvalidArgumentError for fewer than two sizes or a size of 0.
Status check(const MlpOptions& options);

template <class T>
class Mlp final : public Model<T> {
 public:
  /// Throws InvalidArgumentError where check() does not pass.
  explicit Mlp(const MlpOptions& options, kernels::Isa isa = kernels::best_isa());

  const MlpOptions& options() const { return options_; }
  const Layout& layout() const override { return layout_; }
  std::size_t parameter_count() const override { return layout_.back().offset + layout_.back().size; }
  /// Weights and biases uniform in +-1 / sqrt(inputs of the layer).
  void initialize(std::uint64_t seed, std::span<T> parameters) const override;
  /// A target that is no class, or spans that do not fit the rows: InvalidArgumentError, nothing changed.
  Loss step(const Batch& batch, std::span<const T> parameters, std::span<T> gradients, double divisor,
            const FinalFrom& final_from) override;
  Loss evaluate(const Batch& batch, std::span<const T> parameters) override;
  double step_flops(std::size_t rows) const override;

 private:
  std::size_t layers() const { return options_.sizes.size() - 1; }
  std::size_t classes() const { return options_.sizes.back(); }
  void check_batch(const Batch& batch, std::size_t parameters) const;
  void forward(const Batch& batch, const T* parameters);
  Loss loss(const Batch& batch, T* dlogits, double divisor);
  void activate(T* values, std::size_t count) const;
  void activate_back(const T* outputs, T* gradients, std::size_t count) const;

  MlpOptions options_;
  kernels::Isa isa_;
  Layout layout_;                        // weight, bias of each layer
  std::vector<std::vector<T>> outputs_;  // [0] the input, [i] after layer i - 1
  std::vector<T> gradient_, next_gradient_;
};

extern template class Mlp<float>;
extern template class Mlp<double>;

}  // namespace troupe::train
