// An optimizer of one flat array of parameters: Adam or RMSprop, with a clip of the gradient's norm. A plain class; one
// thread at a time.
//
// FOP-1  A gradient whose norm is not finite is not applied: step() says so by the norm that it returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/rl/state/state_dict.h"
#include "kernels/cpu/isa/isa.h"

namespace rl {

enum class OptimizerKind {
  kAdam,
  kRmsprop,  // as TensorFlow's, which A2C and IMPALA were published with: epsilon under the root, squares begin at 1
};

struct FlatOptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdam;
  double epsilon = 1e-5;
  double decay = 0.99;          // of RMSprop's squares
  double max_grad_norm = 0.5;
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
};

class FlatOptimizer {
 public:
  FlatOptimizer(const FlatOptimizerOptions& options, std::size_t count);

  /// The norm of the gradient before it was clipped.
  double step(std::span<float> params, std::span<const float> grads, double learning_rate);

  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] StateDict save() const;
  /// SerializationError, thrown, when it is the state of another one; nothing has changed then.
  void restore(const StateDict& state);

 private:
  FlatOptimizerOptions options_;
  std::int64_t steps_ = 0;
  std::vector<float> first_moment_, second_moment_;  // the first is Adam's alone
};

}  // namespace rl
