// ImpalaLearner: an actor-critic that corrects for the age of its samples by V-trace (Espeholt et al., 2018), one
// gradient step on all fragments of an update. With a clip its policy loss is PPO's clipped one with V-trace's
// advantages.
//
// With target_interval it is APPO as RLlib has it: an older copy of the policy, renewed every so many updates, is what
// V-trace corrects for, and the clip holds the ratio to it; the player's ratio to the copy counts at most 2:
//
//   ratio = min(mu / old, 2) * pi / mu        mu: played, old: the copy, pi: now
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
#include <optional>
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
  std::int64_t target_interval = 0;  // updates between two copies; 0: none is kept
  VtraceOptions vtrace = {};
  FlatOptimizerOptions optimizer = {};
  std::uint64_t seed = 1;  // of the first parameters
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
  std::optional<Gpu> gpu = {};  // of the networks; none: the CPU
};

class ImpalaLearner final : public Learner {
 public:
  /// Throws what check_policy says of its policy, and InvalidArgumentError for a target without a clip.
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
  /// Of the copy; empty without one.
  std::span<const float> old_log_prob(const FragmentView& own);
  /// The loss of a row whose advantage is V-trace's; its derivative for log_prob goes to `slope`.
  double surrogate(double advantage, double log_ratio, std::optional<double> old_log_ratio, double& slope) const;
  void add_up(Scalars& scalars) const;

  ImpalaOptions options_;
  ActorCriticGradient<float> gradient_;
  std::vector<float> params_, old_params_;  // the copy; empty without one
  FlatOptimizer optimizer_;
  std::int64_t env_steps_ = 0, updates_ = 0;
  std::vector<float> targets_, advantages_, old_log_prob_;
  Peers peers_;
};

}  // namespace rl
