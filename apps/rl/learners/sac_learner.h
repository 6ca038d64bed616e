// SacLearner: soft actor-critic (Haarnoja et al., 2018) with twin critics and a temperature that is learned or fixed.
// One update is one step of the temperature, of the critics and of the actor, in this order, on one minibatch of
// transitions (samples/transitions.h); then the targets move.
//
// The order is that of Stable-Baselines3's SAC.train: the actions of the present actor are drawn first and serve the
// temperature and the actor; all losses of an update use the temperature from before its step; the actor's loss sees
// the critics after theirs.
//
// Its metrics: "critic_loss", "actor_loss", "alpha" (as used), "alpha_loss", "entropy" (of the actor, estimated), "q",
// "target", "learning_rate".
//
// Promises: LRN-1 to LRN-3 of learner.h, where an update has three steps: none of those behind a loss or gradient that
// is not finite is taken. One thread at a time.
//
// SAL-1  The noise of an update is drawn in the order of the rows, for the action in obs and then for that in next_obs:
//        row i's noise does not depend on how the minibatch was divided into batches.
// SAL-2  Actions of transitions are elements of the Box; the networks see them in [-1, 1].
// SAL-3  prepare() works out what the next update needs of this one alone, while its batches are on their way: its
//        noise, for as many rows as before, and the targets as the critics have moved them. State and results are as
//        without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/algorithms/schedule.h"
#include "apps/rl/learners/learner.h"
#include "apps/rl/learners/sac_gradient.h"
#include "apps/rl/policies/observation_encoder.h"
#include "apps/rl/policies/squashed_gaussian.h"
#include "apps/rl/samples/transitions.h"

namespace rl {

struct SacTemperature {
  std::optional<double> fixed = {};           // none: learned
  double first = 1;                           // of a learned one
  std::optional<double> target_entropy = {};  // none: minus the numbers of an action
};

struct SacOptions {
  SquashedGaussianSpec policy = {};
  std::vector<std::size_t> critic_hidden = {256, 256};
  Activation critic_activation = Activation::kRelu;
  LinearDecay learning_rate{.first = 3e-4, .last = 3e-4};  // of all three, over updates
  SacTemperature temperature = {};
  double tau = 0.005;
  std::int64_t target_interval = 1;  // in updates
  double adam_epsilon = 1e-8;
  std::uint64_t seed = 1;
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
  std::optional<Gpu> gpu = {};  // of the networks; none: the CPU
};

class SacLearner final : public Learner {
 public:
  /// Throws what check_squashed_gaussian and check_network say, and InvalidArgumentError for a temperature that is not
  /// above 0 or a tau outside (0, 1].
  explicit SacLearner(const SacOptions& options);

  /// The actor's.
  [[nodiscard]] std::span<const float> params() const override { return actor_.params; }
  /// All batches together are the minibatch. The report has the critics' errors of its rows, in their order.
  UpdateReport update(std::span<const SampleView> batches) override;
  void prepare() override;
  [[nodiscard]] StateDict save() const override;
  void restore(const StateDict& state) override;
  void join(const Peers& peers) override { peers_ = peers; }

  [[nodiscard]] double alpha() const;
  [[nodiscard]] std::int64_t updates() const { return updates_; }

 private:
  /// Parameters and their optimizer.
  struct Learned {
    explicit Learned(std::size_t count) : params(count), first(count), second(count), grads(count) {}
    std::vector<float> params, first, second, grads;
  };
  UpdateReport step(const SampleView& samples);
  [[nodiscard]] SacBatch<float> read(const TransitionView& all);
  void draw_noise(std::size_t rows);
  /// The targets after the last update.
  void move(std::span<float> targets) const;
  /// This learner's rows of a minibatch that is shared, and its noise.
  [[nodiscard]] SacBatch<float> own_rows(const SacBatch<float>& all, Peers::Part part) const;
  /// What the peers know of the rows, in one sum: the critics' scalars of all parts together, the errors and
  /// log-probabilities of each part.
  SacCriticScalars exchange(const SacCriticScalars& own, Peers::Part part);
  void step_temperature(double gradient, double learning_rate);
  void step_network(Learned& learned, double learning_rate) const;
  void check_finite(const char* whose, double loss, std::span<const float> grads) const;

  SacOptions options_;
  SacNetworks networks_;
  double target_entropy_;
  ActionScale scale_;
  ObservationEncoder encoder_;
  SacGradient<float> gradient_;
  Generator generator_;
  Learned actor_, critics_;
  std::vector<float> targets_;
  double log_alpha_, alpha_first_ = 0, alpha_second_ = 0;
  std::int64_t updates_ = 0;
  bool targets_wait_ = false;                       // the last update's move of the targets is still to be made
  std::optional<Generator::Saved> before_noise_{};  // the generator before noise_ was drawn ahead; none: it was not
  std::vector<float> obs_, next_obs_, action_;
  std::vector<double> noise_, next_noise_, errors_, log_prob_, exchanged_;
  Peers peers_;
};

}  // namespace rl
