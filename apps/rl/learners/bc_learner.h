// BcLearner: behavioural cloning (Pomerleau, 1991): the likelihood of the demonstrated actions is maximized.
//
//   loss = mean(-log_prob) - entropy_coefficient * mean(entropy)
//
// Its metrics: "loss", "log_prob" (mean), "entropy", "grad_norm" (before it is clipped), "learning_rate". The value
// that an actor-critic has beside its policy is not trained.
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

struct BcOptions {
  PolicySpec policy = {};
  LinearDecay learning_rate{.first = 1e-3, .last = 1e-3};  // over samples
  double entropy_coefficient = 0;
  FlatOptimizerOptions optimizer{};
  std::uint64_t seed = 1;  // of the first parameters
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
  std::optional<Gpu> gpu = {};  // of the networks; none: the CPU
};

class BcLearner final : public Learner {
 public:
  /// Throws what check_policy says of its policy.
  explicit BcLearner(const BcOptions& options);

  [[nodiscard]] std::span<const float> params() const override { return params_; }
  /// Columns "obs" and "action".
  UpdateReport update(std::span<const SampleView> batches) override;
  [[nodiscard]] StateDict save() const override;
  void restore(const StateDict& state) override;

 private:
  BcOptions options_;
  ActorCriticGradient<float> gradient_;
  std::vector<float> params_;
  FlatOptimizer optimizer_;
  std::int64_t samples_ = 0;
};

}  // namespace rl
