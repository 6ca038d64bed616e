// The loss of deep Q-learning over a minibatch, and its gradient. The learner around it holds parameters, optimizer and
// target network.
//
//   target = reward + discount * Q_target(next_obs, a)     a: the best of Q_target, or (double) of the online network,
//                                                          of what next_mask allows
//   loss   = mean(weight * l(target - Q(obs, action)))      l: Huber with delta 1, or the square
//
// No state but scratch memory: one thread at a time. T is float or double (tests). Targets, errors and losses are
// calculated in double from the networks' numbers.
//
// DQG-1  The gradient is that of the loss with the targets held fixed.
// DQG-2  A row's error, target - Q, is of that row alone; its importance weight is not in it.
// DQG-3  Rows of a larger minibatch give their share of its means and gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/rl/policies/q_network.h"

namespace rl {

enum class TdLoss { kHuber, kSquared };
enum class TdTarget { kPlain, kDouble };

template <class T>
struct TdBatch {
  std::span<const T> obs, next_obs;      // as the network sees them
  std::span<const std::int64_t> action;  // elements of the action space
  std::span<const T> reward, discount;
  std::span<const T> weight = {};        // empty: 1
  std::span<const std::uint8_t> next_mask = {};  // [rows][actions], 1: allowed; empty: all are
  std::size_t whole = 0;                 // rows of the minibatch that these are a part of; 0: these are all
};

/// Means over the minibatch.
struct TdScalars {
  double loss = 0, abs_error = 0, q = 0, target = 0;
};

struct DqnGradientOptions {
  TdTarget target = TdTarget::kDouble;
  TdLoss loss = TdLoss::kHuber;
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
  std::optional<Gpu> gpu = {};
};

template <class T>
class DqnGradient {
 public:
  DqnGradient(const QNetworkSpec& spec, const DqnGradientOptions& options);

  /// Writes the gradients and target - Q of each row. InvalidArgumentError, thrown, for an action that is none.
  TdScalars evaluate(std::span<const T> online, std::span<const T> target, const TdBatch<T>& batch,
                     std::span<T> grads, std::span<double> errors);

  /// InvalidArgumentError, thrown, when one of them is none.
  void check_actions(std::span<const std::int64_t> actions) const;

 private:
  void targets(std::span<const T> online, std::span<const T> target, const TdBatch<T>& batch);
  [[nodiscard]] std::size_t taken(std::int64_t action) const;

  DqnGradientOptions options_;
  std::int64_t start_;
  QNetwork<T> net_;
  std::vector<T> q_, q_online_next_, q_target_next_, dq_;
  std::vector<double> targets_, online_row_, target_row_;
};

}  // namespace rl
