// DqnLearner: deep Q-learning (Mnih et al., 2015), double (van Hasselt et al., 2016) and dueling where wanted. One
// update is one gradient step on one minibatch of transitions (samples/transitions.h), which may carry importance
// weights.
//
// Its metrics: "loss", "td_error" (mean of absolutes), "q" (of the actions taken), "target", "learning_rate",
// "grad_norm" (before it is clipped).
//
// Promises: LRN-1 to LRN-4 of learner.h. One thread at a time.
//
// DQL-1  The target network becomes the online one (or, with a tau, moves towards it) after every target.interval
//        updates; at first it is the online one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/rl/algorithms/schedule.h"
#include "apps/rl/learners/dqn_gradient.h"
#include "apps/rl/learners/learner.h"
#include "apps/rl/samples/transitions.h"
#include "apps/rl/policies/observation_encoder.h"
#include "apps/rl/policies/q_network.h"

namespace rl {

struct TargetUpdate {
  std::int64_t interval = 1;  // in updates
  double tau = 1;             // 1: a copy
};

struct DqnOptions {
  QNetworkSpec policy = {};
  TdTarget td_target = TdTarget::kDouble;
  TdLoss loss = TdLoss::kHuber;
  LinearDecay learning_rate{.first = 1e-3, .last = 1e-3};  // over updates
  TargetUpdate target{.interval = 500, .tau = 1};
  double max_grad_norm = 10;
  double adam_epsilon = 1e-8;
  std::uint64_t seed = 1;  // of the first parameters
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
  std::optional<Gpu> gpu = {};  // of the networks; none: the CPU
};

class DqnLearner final : public Learner {
 public:
  /// Throws what check_q_network says, and InvalidArgumentError for a target that never moves.
  explicit DqnLearner(const DqnOptions& options);

  [[nodiscard]] std::span<const float> params() const override { return params_; }
  /// All batches together are the minibatch. The report has the errors of its rows, in their order.
  UpdateReport update(std::span<const SampleView> batches) override;
  [[nodiscard]] StateDict save() const override;
  void restore(const StateDict& state) override;
  void join(const Peers& peers) override { peers_ = peers; }

  [[nodiscard]] std::int64_t updates() const { return updates_; }

 private:
  UpdateReport step(const SampleView& samples);
  TdScalars differentiate(const TransitionView& all);

  DqnOptions options_;
  DqnGradient<float> gradient_;
  ObservationEncoder encoder_;
  std::vector<float> params_, target_, first_moment_, second_moment_;
  std::int64_t updates_ = 0;
  std::vector<float> obs_, next_obs_, grads_;
  std::vector<double> errors_;
  Peers peers_;
};

}  // namespace rl
