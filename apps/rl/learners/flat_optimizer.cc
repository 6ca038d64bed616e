#include "apps/rl/learners/flat_optimizer.h"

#include <cmath>

#include "kernels/cpu/optimizer/optimizer.h"

namespace rl {

FlatOptimizer::FlatOptimizer(const FlatOptimizerOptions& options, std::size_t count) : options_(options) {
  if (options.kind == OptimizerKind::kAdam) first_moment_.assign(count, 0.0f);
  second_moment_.assign(count, options.kind == OptimizerKind::kAdam ? 0.0f : 1.0f);
}

double FlatOptimizer::step(std::span<float> params, std::span<const float> grads, double learning_rate) {
  const double norm = troupe::kernels::global_norm<float>(grads);
  if (!std::isfinite(norm)) return norm;  // FOP-1
  const double scale = troupe::kernels::clip_scale(norm, options_.max_grad_norm);
  ++steps_;
  if (options_.kind == OptimizerKind::kAdam)
    troupe::kernels::adam_step<float>(options_.isa, {params, grads, first_moment_, second_moment_}, steps_, scale,
                                      {.learning_rate = learning_rate, .epsilon = options_.epsilon});
  else
    troupe::kernels::rmsprop_step<float>(params, grads, second_moment_, scale,
                                         {.learning_rate = learning_rate,
                                          .decay = options_.decay,
                                          .epsilon = options_.epsilon});
  return norm;
}

StateDict FlatOptimizer::save() const {
  StateDict out;
  out.put("first_moment", first_moment_), out.put("second_moment", second_moment_);
  out.put_one("steps", steps_);
  return out;
}

void FlatOptimizer::restore(const StateDict& state) {
  const auto& first = state.get<float>("first_moment", first_moment_.size());
  const auto& second = state.get<float>("second_moment", second_moment_.size());
  steps_ = state.get_one<std::int64_t>("steps");
  first_moment_ = first, second_moment_ = second;
}

}  // namespace rl
