// What all losses of an actor-critic have in common: its networks forward, the log-probabilities, entropies and values
// of a batch, and from the derivatives with respect to these the gradients of all parameters.
//
//   evaluate(params, obs, actions) ──▶ the caller's loss writes derivatives() ──▶ backward(params)
//
// No state but scratch memory: one thread at a time; parameters are the caller's. T is float or double (tests).
//
// ACG-1  backward() needs the evaluate() just before it, with the same parameters; what it read is still there then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "apps/rl/policies/actor_critic.h"
#include "apps/rl/policies/distribution.h"
#include "apps/rl/policies/observation_encoder.h"
#include "apps/rl/policies/policy_spec.h"
#include "apps/rl/spaces/rows.h"

namespace rl {

template <class T>
class ActorCriticGradient {
 public:
  /// [B] each.
  struct Evaluation {
    std::span<const T> log_prob, entropy, value;
  };
  struct Derivatives {
    std::span<T> log_prob, entropy, value;
  };

  /// Throws what check_policy says.
  ActorCriticGradient(const PolicySpec& spec, troupe::kernels::Isa isa, const std::optional<Gpu>& gpu = {});

  /// `mask`: what was allowed (Distribution::Batch::mask), a row an action; without rows: everything.
  Evaluation evaluate(std::span<const T> params, ConstRows obs, ConstRows actions, ConstRows mask = {});
  /// Of the last batch; zeros after evaluate().
  [[nodiscard]] Derivatives derivatives() { return {d_log_prob_, d_entropy_, d_value_}; }
  /// Of all parameters.
  std::span<T> backward(std::span<const T> params);
  /// Those of a batch without rows: zeros.
  std::span<T> no_gradients();
  /// Only the values.
  std::span<const T> values(std::span<const T> params, ConstRows obs);

 private:
  std::span<const T> encode(ConstRows obs);

  ActorCritic<T> net_;
  ObservationEncoder encoder_;
  std::unique_ptr<Distribution<T>> distribution_;
  ConstRows actions_;
  std::span<const std::uint8_t> mask_;
  std::vector<float> encoded_;
  std::vector<T> converted_, action_params_, values_, log_prob_, entropy_;
  std::vector<T> d_action_params_, d_value_, d_log_prob_, d_entropy_, grads_;
};

}  // namespace rl
