// The networks of an actor-critic: one gives the parameters of the distribution of actions, one the value of the
// observation. They may share their first layers (the trunk).
//
//            ┌──▶ policy ─▶ parameters of the distribution (behind them, for numbers, the logs of the deviations)
//   obs ─▶ trunk
//            └──▶ value ──▶ value                              without a trunk both see the observation
//
// All parameters lie in one flat array: trunk, policy, value, logs of the deviations, which do not depend on the
// observation (Andrychowicz et al., 2021). One array means one broadcast, one gradient norm and one optimizer step.
//
// An ActorCritic keeps only the activations of the last batch: one thread at a time, parameters are the caller's.
//
// AK-1  backward() needs the evaluate() just before it, with the same parameters and observations (NET-1).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/networks/network.h"
#include "apps/rl/spaces/space.h"

namespace rl {

struct ActorCriticSpec {
  std::optional<NetworkSpec> trunk = {};
  NetworkSpec policy = {}, value = {};
  std::size_t log_stds = 0;       // numbers of an action; 0 where actions are choices
  double initial_log_std = 0;

  [[nodiscard]] std::size_t inputs() const { return trunk ? trunk->inputs() : policy.inputs(); }
  /// Numbers of a row of the distribution's parameters.
  [[nodiscard]] std::size_t distribution_size() const { return policy.outputs + log_stds; }
  [[nodiscard]] std::size_t parameter_count() const;
  friend bool operator==(const ActorCriticSpec&, const ActorCriticSpec&) = default;
};

struct NetworkOptions {
  std::vector<std::size_t> hidden = {64, 64};
  Activation activation = Activation::kTanh;
  std::vector<Convolution> convolutions = {};  // of the trunk; with them `hidden` are the trunk's layers too
  double initial_log_std = 0;
};

/// For these spaces: two networks of their own, or with convolutions a shared trunk and linear heads, as
/// Stable-Baselines3's CnnPolicy. InvalidArgumentError for spaces that it cannot see or act in.
[[nodiscard]] troupe::Result<ActorCriticSpec> actor_critic_for(const Space& observation_space,
                                                               const Space& action_space,
                                                               const NetworkOptions& options = {});

[[nodiscard]] troupe::Status check_actor_critic(const ActorCriticSpec& spec);
[[nodiscard]] boost::json::value to_json(const ActorCriticSpec& spec);
/// InvalidArgumentError for what to_json does not give, or check_actor_critic refuses.
[[nodiscard]] troupe::Result<ActorCriticSpec> actor_critic_from_json(const boost::json::value& json);

template <class T>
class ActorCritic {
 public:
  ActorCritic(ActorCriticSpec spec, troupe::kernels::Isa isa, const std::optional<Gpu>& gpu = {});

  /// distribution[B][distribution_size()] and values[B] for obs[B][inputs]; the vectors are resized.
  void evaluate(std::span<const T> params, std::span<const T> obs, std::vector<T>& distribution,
                std::vector<T>& values);
  /// Only the values; for bootstrapping.
  void evaluate_values(std::span<const T> params, std::span<const T> obs, std::vector<T>& values);
  /// Gradients of all parameters from those of the distribution's parameters and of the values.
  void backward(std::span<const T> params, std::span<const T> distribution_grad, std::span<const T> values_grad,
                std::span<T> grads);

  [[nodiscard]] const ActorCriticSpec& spec() const { return spec_; }

 private:
  /// The numbers of one part in a flat array.
  template <class Span> Span trunk_of(Span all) const { return all.first(trunk_count_); }
  template <class Span> Span policy_of(Span all) const { return all.subspan(trunk_count_, policy_count_); }
  template <class Span> Span value_of(Span all) const {
    return all.subspan(trunk_count_ + policy_count_, value_count_);
  }
  template <class Span> Span log_stds_of(Span all) const {
    return all.subspan(trunk_count_ + policy_count_ + value_count_);
  }
  std::span<const T> features(std::span<const T> params, std::span<const T> obs);

  ActorCriticSpec spec_;
  std::size_t trunk_count_, policy_count_, value_count_;
  std::unique_ptr<Network<T>> trunk_, policy_, value_;
  std::vector<T> features_, means_, features_grad_, more_grad_;
};

/// As initialize() of its networks, and initial_log_std.
[[nodiscard]] std::vector<float> initial_parameters(const ActorCriticSpec& spec, Generator& generator);

}  // namespace rl
