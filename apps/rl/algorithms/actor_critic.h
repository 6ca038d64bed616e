// The policy network and the value network of PPO, with their parameters in one flat array: first pi, then vf.
//
// One array means one broadcast, one gradient norm and one optimizer step. An ActorCritic keeps only the activations
// of the last batch: one thread at a time, parameters are the caller's.
//
// AK-1  backward() needs the evaluate() just before it, with the same parameters and observations (KM-3).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "apps/rl/algorithms/rng.h"
#include "kernels/cpu/mlp/mlp.h"

namespace rl {

struct ActorCriticShape {
  troupe::kernels::MlpShape policy;
  troupe::kernels::MlpShape value;

  [[nodiscard]] std::size_t parameter_count() const { return policy.parameter_count() + value.parameter_count(); }
  friend bool operator==(const ActorCriticShape&, const ActorCriticShape&) = default;
};

/// Two networks of the same hidden size, for `obs_size` numbers in and one logit an action out.
[[nodiscard]] ActorCriticShape actor_critic_shape(std::size_t obs_size, std::size_t num_actions,
                                                  std::size_t hidden = 64);

template <class T>
class ActorCritic {
 public:
  ActorCritic(const ActorCriticShape& shape, troupe::kernels::Isa isa)
      : shape_(shape), isa_(isa), policy_tape_(shape.policy), value_tape_(shape.value) {}

  /// logits[B][A] and values[B] for obs[B][inputs]; the vectors are resized.
  void evaluate(std::span<const T> params, std::span<const T> obs, std::vector<T>& logits, std::vector<T>& values);
  /// Only the values; for bootstrapping.
  void evaluate_values(std::span<const T> params, std::span<const T> obs, std::vector<T>& values);
  /// Gradients of all parameters from those of logits and values.
  void backward(std::span<const T> params, std::span<const T> logits_grad, std::span<const T> values_grad,
                std::span<T> grads);

  [[nodiscard]] const ActorCriticShape& shape() const { return shape_; }

 private:
  [[nodiscard]] std::size_t split() const { return shape_.policy.parameter_count(); }

  ActorCriticShape shape_;
  troupe::kernels::Isa isa_;
  troupe::kernels::MlpTape<T> policy_tape_;
  troupe::kernels::MlpTape<T> value_tape_;
};

/// Orthogonal weights (gain sqrt 2 in the hidden layers, 0.01 for the policy's last and 1 for the value's), zero
/// biases.
[[nodiscard]] std::vector<float> initial_parameters(const ActorCriticShape& shape, Generator& generator);

}  // namespace rl
