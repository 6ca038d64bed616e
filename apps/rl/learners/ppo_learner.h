// Holds the parameters and improves them from batches: several epochs of shuffled minibatches of the clipped PPO
// loss, with a global gradient clip and Adam.
//
// A plain class: no threads, no runtime. One thread at a time.
//
// LE-1  The same options, seed and batches in the same order give the same parameters, bit for bit, on one
//       instruction set.
// LE-2  save() and restore() carry everything: an update after restore gives the bits of the update without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/rl/algorithms/ppo_loss.h"
#include "apps/rl/algorithms/rng.h"
#include "apps/rl/policies/distribution.h"
#include "apps/rl/policies/observation_encoder.h"
#include "apps/rl/policies/policy_spec.h"
#include "apps/rl/samples/on_policy.h"
#include "kernels/cpu/optimizer/optimizer.h"

namespace rl {

/// A value that falls linearly with the environment steps learned from, and then stays.
struct LinearDecay {
  double first = 1;
  double last = 1;
  std::int64_t over_steps = 100'000;

  [[nodiscard]] double at(std::int64_t steps) const;
};

struct LearnerOptions {
  PolicySpec policy;
  int epochs = 8;
  std::size_t minibatch = 256;
  LinearDecay learning_rate{.first = 2e-3, .last = 2e-4};
  LinearDecay clip{.first = 0.2, .last = 0.1};
  double value_coefficient = 0.5;
  double entropy_coefficient = 0.0;
  double max_grad_norm = 0.5;
  double adam_epsilon = 1e-5;
  std::uint64_t seed = 1;
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
};

struct UpdateStats {
  PpoScalars last;      // of the last minibatch
  double kl = 0;        // approximate (k3), mean over the update's minibatches; so are the next two
  double clip_fraction = 0;
  double entropy = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  int minibatches = 0;
};

/// All that changes in a Learner.
struct LearnerState {
  std::vector<float> params, first_moment, second_moment;
  std::int64_t optimizer_steps = 0;
  std::int64_t env_steps = 0;  // samples learned from; drives the schedules
  Generator::Saved generator{};
};

class Learner {
 public:
  /// Throws what check_policy says of its policy.
  explicit Learner(const LearnerOptions& options);

  [[nodiscard]] std::span<const float> params() const { return state_.params; }
  /// One PPO update from all batches together.
  UpdateStats update(std::span<const SampleView> batches);

  [[nodiscard]] LearnerState save() const;
  void restore(LearnerState state);

 private:
  void gather_minibatch(const OnPolicyView& all, std::span<const std::uint32_t> rows);
  [[nodiscard]] PpoScalars step(const OnPolicyView& minibatch, const PpoLossOptions& loss, UpdateStats& stats);

  LearnerOptions options_;
  ActorCritic<float> net_;
  Generator generator_;
  LearnerState state_;
  ObservationEncoder encoder_;
  std::unique_ptr<Distribution<float>> distribution_;
  OwnedSamples minibatch_;
  std::vector<std::uint32_t> order_;
  std::vector<float> encoded_, action_params_, values_, log_prob_, entropy_;
  std::vector<float> action_params_grad_, values_grad_, log_prob_grad_, entropy_grad_, grads_;
  PpoPerSample<float> samples_;
};

}  // namespace rl
