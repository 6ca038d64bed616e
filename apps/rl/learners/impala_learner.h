// ImpalaLearner: an actor-critic that corrects for the age of its samples by V-trace (Espeholt et al., 2018), one
// gradient step on all fragments of an update. With a clip its policy loss is PPO's clipped one with V-trace's
// advantages, as in APPO; there is no target network.
//
//   loss = -mean(advantage * log_prob) - entropy_coefficient * mean(entropy) + value_coefficient * mean((V - vs)^2)
//
// Means are over transitions. Advantages and targets (vs) are held fixed.
//
// Its metrics: "policy_loss", "value_loss", "loss", "entropy", "kl" (k3, of the policy that played), "grad_norm"
// (before it is clipped), "learning_rate".
//
// Promises: LRN-1 to LRN-4 of learner.h. One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/rl/algorithms/schedule.h"
#include "apps/rl/algorithms/vtrace.h"
#include "apps/rl/learners/actor_critic_gradient.h"
#include "apps/rl/learners/flat_optimizer.h"
#include "apps/rl/learners/learner.h"
#include "apps/rl/samples/fragments.h"

namespace rl {

struct ImpalaOptions {
  PolicySpec policy = {};
  LinearDecay learning_rate{.first = 5e-4, .last = 5e-4};  // over transitions
  double value_coefficient = 0.5;
  double entropy_coefficient = 0.01;
  double clip = 0;  // of the ratio; 0: V-trace's own policy gradient
  VtraceOptions vtrace = {};
  FlatOptimizerOptions optimizer = {};
  std::uint64_t seed = 1;  // of the first parameters
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
};

class ImpalaLearner final : public Learner {
 public:
  /// Throws what check_policy says of its policy.
  explicit ImpalaLearner(const ImpalaOptions& options);

  [[nodiscard]] std::span<const float> params() const override { return params_; }
  /// One step on all fragments together.
  UpdateReport update(std::span<const SampleView> batches) override;
  [[nodiscard]] StateDict save() const override;
  void restore(const StateDict& state) override;
  void join(const Peers& peers) override { peers_ = peers; }

 private:
  struct Scalars {
    double policy_loss = 0, value_loss = 0, entropy = 0, kl = 0, loss = 0;
  };
  /// Gives this learner's share of the means and gradients over `count` transitions.
  Scalars differentiate(const FragmentView& own, double count);
  void add_up(Scalars& scalars) const;

  ImpalaOptions options_;
  ActorCriticGradient<float> gradient_;
  std::vector<float> params_;
  FlatOptimizer optimizer_;
  std::int64_t env_steps_ = 0;
  std::vector<float> targets_, advantages_;
  Peers peers_;
};

}  // namespace rl
