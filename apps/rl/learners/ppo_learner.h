// PpoLearner: several epochs of shuffled minibatches of the clipped PPO loss, with a global gradient clip and Adam.
//
// Its metrics: "policy_loss", "value_loss", "loss", "entropy", "kl" (k3), "clip_fraction", "grad_norm" (before it is
// clipped), "explained_variance" (of the values that acted), "learning_rate", "clip".
//
// Promises: LRN-1 to LRN-4 of learner.h. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "apps/rl/algorithms/ppo_loss.h"
#include "apps/rl/algorithms/rng.h"
#include "apps/rl/algorithms/schedule.h"
#include "apps/rl/learners/actor_critic_gradient.h"
#include "apps/rl/learners/learner.h"
#include "apps/rl/policies/policy_spec.h"
#include "apps/rl/samples/on_policy.h"
#include "kernels/cpu/optimizer/optimizer.h"

namespace rl {

struct PpoOptions {
  PolicySpec policy = {};
  int epochs = 8;
  std::size_t minibatch = 256;
  LinearDecay learning_rate{.first = 2e-3, .last = 2e-4};
  LinearDecay clip{.first = 0.2, .last = 0.1};
  double value_coefficient = 0.5;
  double entropy_coefficient = 0.0;
  ValueLoss value_loss = ValueLoss::kFullUnclipped;
  double target_kl = 0;  // an update ends with the epoch whose last minibatch has 1.5 times that; 0: it does not
  double max_grad_norm = 0.5;
  double adam_epsilon = 1e-5;
  std::uint64_t seed = 1;
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
  std::optional<Gpu> gpu = {};  // of the networks; none: the CPU
};

class PpoLearner final : public Learner {
 public:
  /// Throws what check_policy says of its policy.
  explicit PpoLearner(const PpoOptions& options);

  [[nodiscard]] std::span<const float> params() const override { return params_; }
  /// One PPO update from all batches together (samples/on_policy.h).
  UpdateReport update(std::span<const SampleView> batches) override;
  [[nodiscard]] StateDict save() const override;
  void restore(const StateDict& state) override;
  void join(const Peers& peers) override { peers_ = peers; }

  /// Samples learned from; drives the schedules.
  [[nodiscard]] std::int64_t env_steps() const { return env_steps_; }

 private:
  class Means;  // of the minibatches of an update

  void gather_minibatch(const OnPolicyView& all, std::span<const std::uint32_t> rows);
  void learn_rows(const OnPolicyView& all, std::span<const std::uint32_t> rows, const PpoLossOptions& loss,
                  double learning_rate, Means& means);
  /// `own`: the rows that are this learner's of the minibatch `whole`.
  void step(const OnPolicyView& own, const PpoWhole& whole, const PpoLossOptions& loss, double learning_rate,
            Means& means);
  PpoScalars differentiate(const OnPolicyView& own, const PpoWhole& whole, const PpoLossOptions& loss);

  PpoOptions options_;
  ActorCriticGradient<float> gradient_;
  Generator generator_;
  std::vector<float> params_, first_moment_, second_moment_;
  std::int64_t optimizer_steps_ = 0, env_steps_ = 0;
  OwnedSamples minibatch_;
  std::vector<std::uint32_t> order_;
  PpoPerSample<float> samples_;
  Peers peers_;
  std::vector<float> advantages_;  // of a minibatch that is shared
};

}  // namespace rl
