// The losses of soft actor-critic over a minibatch, and their gradients. The learner around it holds parameters,
// optimizers and the temperature.
//
//   act      actions of the present actor in obs and next_obs, with given noise, and their log-probabilities
//   critic   mean((Q1 - y)^2) + mean((Q2 - y)^2)              y = reward + discount (min Q_target - alpha log pi(next))
//   actor    mean(alpha log pi - min(Q1, Q2))
//
// Critics see the observation and the action in [-1, 1]. Their parameters are one flat array: the first critic's, then
// the second's; so are the targets'.
//
// No state but scratch memory and what act() found: one thread at a time. T is float or double (tests). Losses, targets
// and log-probabilities are calculated in double from the networks' numbers. After the first minibatch of a size
// nothing is allocated.
//
// Invariants
//   SCG-1  critic() and actor() need act() before, with the same batch; actor() the same actor's parameters.
//   SCG-2  Each gradient is that of its loss with all else held fixed: the targets in critic(), the critics and alpha
//          in actor(), which makes no gradients of the critics' parameters.
//   SCG-3  A row with discount 0 does not look at its next observation (SAC-3).
//   SCG-4  Importance weights are the critics'; the actor and the temperature see all rows alike.
//   SCG-5  Rows of a larger minibatch give their share of its means and gradients: all parts together are the
//          minibatch's.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "apps/rl/networks/network.h"

namespace rl {

template <class T>
struct SacBatch {
  std::span<const T> obs, next_obs;    // as the networks see them
  std::span<const T> action;           // in [-1, 1]
  std::span<const T> reward, discount;
  std::span<const T> weight = {};      // empty: 1
  std::size_t whole = 0;               // rows of the minibatch that these are a part of; 0: these are all

  [[nodiscard]] std::size_t rows() const { return reward.size(); }
  /// What means are over.
  [[nodiscard]] double count() const { return static_cast<double>(whole == 0 ? rows() : whole); }
};

struct SacNetworks {
  NetworkSpec actor = {}, critic = {};

  [[nodiscard]] std::size_t dimensions() const { return actor.outputs / 2; }
};
/// The critic that goes with an actor: it sees the action too.
[[nodiscard]] SacNetworks sac_networks(const NetworkSpec& actor, const std::vector<std::size_t>& critic_hidden,
                                       Activation activation);

/// Means over the minibatch.
struct SacCriticScalars {
  double loss = 0, q = 0, target = 0;
};

template <class T>
class SacGradient {
 public:
  SacGradient(const SacNetworks& networks, troupe::kernels::Isa isa, const std::optional<Gpu>& gpu = {});

  /// noise and next_noise: [B][d].
  void act(std::span<const T> actor, const SacBatch<T>& batch, std::span<const double> noise,
           std::span<const double> next_noise);
  /// Of the actions in obs.
  [[nodiscard]] std::span<const double> log_prob() const { return log_prob_; }
  /// Writes the gradients of both critics, and to `errors` the mean of both |Q - y| of each row.
  SacCriticScalars critic(std::span<const T> critics, std::span<const T> targets, const SacBatch<T>& batch,
                          double alpha, std::span<T> grads, std::span<double> errors);
  /// The loss; writes the actor's gradients.
  double actor(std::span<const T> actor, std::span<const T> critics, const SacBatch<T>& batch, double alpha,
               std::span<T> grads);

 private:
  template <class U> std::span<U> part(std::span<U> both, std::size_t index) const {
    return both.subspan(index * critic_count_, critic_count_);
  }
  void join(std::span<const T> obs, std::span<const T> action);
  void values(std::span<const T> critics);

  std::size_t inputs_, dimensions_, critic_count_;
  std::unique_ptr<Network<T>> actor_;
  std::array<std::unique_ptr<Network<T>>, 2> critics_;
  std::vector<T> outputs_, next_outputs_, action_, next_action_, joined_, d_joined_, d_action_, d_outputs_;
  std::array<std::vector<T>, 2> q_, dq_;
  std::array<std::vector<double>, 2> wide_q_;
  std::vector<double> noise_, log_prob_, next_log_prob_, targets_;
};

}  // namespace rl
