// A2cLearner: advantage actor-critic (Mnih et al., 2016), one gradient step on all samples of a round.
//
//   loss = mean(-advantage * log_prob) - entropy_coefficient * mean(entropy) + value_coefficient * mean((V - return)^2)
//
// Its metrics: "policy_loss", "value_loss", "loss", "entropy", "grad_norm" (before it is clipped), "explained_variance"
// (of the values that acted), "learning_rate".
//
// Promises: LRN-1 to LRN-3 of learner.h. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/rl/algorithms/schedule.h"
#include "apps/rl/learners/actor_critic_gradient.h"
#include "apps/rl/learners/flat_optimizer.h"
#include "apps/rl/learners/learner.h"

namespace rl {

struct A2cOptions {
  PolicySpec policy = {};
  LinearDecay learning_rate{.first = 7e-4, .last = 7e-4};  // over samples
  double value_coefficient = 0.5;
  double entropy_coefficient = 0;
  bool normalize_advantage = false;
  FlatOptimizerOptions optimizer{.kind = OptimizerKind::kRmsprop};
  std::uint64_t seed = 1;  // of the first parameters
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
  std::optional<Gpu> gpu = {};  // of the networks; none: the CPU
};

class A2cLearner final : public Learner {
 public:
  /// Throws what check_policy says of its policy.
  explicit A2cLearner(const A2cOptions& options);

  [[nodiscard]] std::span<const float> params() const override { return params_; }
  UpdateReport update(std::span<const SampleView> batches) override;
  [[nodiscard]] StateDict save() const override;
  void restore(const StateDict& state) override;

 private:
  A2cOptions options_;
  ActorCriticGradient<float> gradient_;
  std::vector<float> params_;
  FlatOptimizer optimizer_;
  std::int64_t env_steps_ = 0;
};

}  // namespace rl
