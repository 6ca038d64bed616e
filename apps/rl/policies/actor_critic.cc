#include "apps/rl/policies/actor_critic.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/policies/distribution.h"
#include "apps/rl/policies/observation_encoder.h"

namespace rl {
namespace {

// Small first logits and means: every action is about as likely as any other (Andrychowicz et al., 2021).
constexpr double kPolicyGain = 0.01, kValueGain = 1.0;

}  // namespace

std::size_t ActorCriticSpec::parameter_count() const {
  return (trunk ? trunk->parameter_count() : 0) + policy.parameter_count() + value.parameter_count() + log_stds;
}

troupe::Result<ActorCriticSpec> actor_critic_for(const Space& observation_space, const Space& action_space,
                                                 const NetworkOptions& options) {
  const auto encoder = ObservationEncoder::make(observation_space);
  if (!encoder.ok()) return encoder.error_ptr();
  const auto distribution = make_distribution<float>(action_space);
  if (!distribution.ok()) return distribution.error_ptr();
  ActorCriticSpec out;
  if (std::holds_alternative<Box>(action_space)) {
    out.log_stds = elements_of(action_space);
    out.initial_log_std = options.initial_log_std;
  }
  NetworkSpec body{.input = encoder->shape(),
                   .convolutions = options.convolutions,
                   .hidden = options.hidden,
                   .activation = options.activation};
  if (options.convolutions.empty()) {
    body.input = {encoder->size()};
  } else {
    out.trunk = body;
    if (troupe::Status checked = check_network(*out.trunk); !checked.ok()) return checked.error_ptr();
    body = {.input = {out.trunk->row_size()}, .hidden = {}};
  }
  out.policy = out.value = body;
  out.policy.outputs = (*distribution)->parameters() - out.log_stds;
  out.policy.output_gain = kPolicyGain;
  out.value.outputs = 1;
  out.value.output_gain = kValueGain;
  if (troupe::Status checked = check_actor_critic(out); !checked.ok()) return checked.error_ptr();
  return out;
}

troupe::Status check_actor_critic(const ActorCriticSpec& spec) {
  const auto refuse = [](const char* why) { return troupe::InvalidArgumentError(std::string("actor-critic: ") + why); };
  if (spec.trunk) {
    if (troupe::Status checked = check_network(*spec.trunk); !checked.ok()) return checked;
  }
  for (const NetworkSpec* head : {&spec.policy, &spec.value}) {
    if (troupe::Status checked = check_network(*head); !checked.ok()) return checked;
    if (spec.trunk && head->inputs() != spec.trunk->row_size()) return refuse("a head does not fit the trunk");
  }
  if (spec.policy.inputs() != spec.value.inputs()) return refuse("its networks see different observations");
  if (spec.policy.outputs == 0) return refuse("its policy has no outputs");
  if (spec.value.outputs != 1) return refuse("a value is one number");
  if (spec.log_stds != 0 && spec.log_stds != spec.policy.outputs)
    return refuse("as many deviations as means are needed");
  return {};
}

boost::json::value to_json(const ActorCriticSpec& spec) {
  return {{"trunk", spec.trunk ? to_json(*spec.trunk) : boost::json::value()},
          {"policy", to_json(spec.policy)},
          {"value", to_json(spec.value)},
          {"log_stds", spec.log_stds},
          {"initial_log_std", spec.initial_log_std}};
}

troupe::Result<ActorCriticSpec> actor_critic_from_json(const boost::json::value& json) {
  try {
    const boost::json::object& object = json.as_object();
    ActorCriticSpec out;
    if (const boost::json::value& trunk = object.at("trunk"); !trunk.is_null())
      out.trunk = network_from_json(trunk).value();
    out.policy = network_from_json(object.at("policy")).value();
    out.value = network_from_json(object.at("value")).value();
    out.log_stds = object.at("log_stds").to_number<std::size_t>();
    out.initial_log_std = object.at("initial_log_std").to_number<double>();
    if (troupe::Status checked = check_actor_critic(out); !checked.ok()) return checked.error_ptr();
    return out;
  } catch (const std::exception& error) {
    return troupe::InvalidArgumentError(fmt::format("actor-critic: {}", error.what()));
  }
}

template <class T>
ActorCritic<T>::ActorCritic(ActorCriticSpec spec, troupe::kernels::Isa isa, const std::optional<Gpu>& gpu)
    : spec_(std::move(spec)),
      trunk_count_(spec_.trunk ? spec_.trunk->parameter_count() : 0),
      policy_count_(spec_.policy.parameter_count()),
      value_count_(spec_.value.parameter_count()),
      trunk_(spec_.trunk ? make_network<T>(*spec_.trunk, {.isa = isa, .gpu = gpu}) : nullptr),
      policy_(make_network<T>(spec_.policy, {.isa = isa, .input_gradients = trunk_ != nullptr, .gpu = gpu})),
      value_(make_network<T>(spec_.value, {.isa = isa, .input_gradients = trunk_ != nullptr, .gpu = gpu})) {}

template <class T>
std::span<const T> ActorCritic<T>::features(std::span<const T> params, std::span<const T> obs) {
  if (!trunk_) return obs;
  features_.resize(obs.size() / spec_.inputs() * spec_.trunk->row_size());
  trunk_->forward(trunk_of(params), obs, features_);
  return features_;
}

template <class T>
void ActorCritic<T>::evaluate(std::span<const T> params, std::span<const T> obs, std::vector<T>& distribution,
                              std::vector<T>& values) {
  const std::size_t rows = obs.size() / spec_.inputs(), means = spec_.policy.outputs;
  const std::span<const T> seen = features(params, obs);
  std::vector<T>& outputs = spec_.log_stds != 0 ? means_ : distribution;
  outputs.resize(rows * means);
  policy_->forward(policy_of(params), seen, outputs);
  if (spec_.log_stds != 0) {
    const std::span<const T> log_stds = log_stds_of(params);
    distribution.resize(rows * spec_.distribution_size());
    for (std::size_t row = 0; row < rows; ++row) {
      auto to = distribution.begin() + static_cast<std::ptrdiff_t>(row * spec_.distribution_size());
      to = std::copy_n(means_.begin() + static_cast<std::ptrdiff_t>(row * means), means, to);
      std::copy(log_stds.begin(), log_stds.end(), to);
    }
  }
  values.resize(rows);
  value_->forward(value_of(params), seen, values);
}

template <class T>
void ActorCritic<T>::evaluate_values(std::span<const T> params, std::span<const T> obs, std::vector<T>& values) {
  values.resize(obs.size() / spec_.inputs());
  value_->forward(value_of(params), features(params, obs), values);
}

template <class T>
void ActorCritic<T>::backward(std::span<const T> params, std::span<const T> distribution_grad,
                              std::span<const T> values_grad, std::span<T> grads) {
  std::span<const T> policy_grad = distribution_grad;
  if (spec_.log_stds != 0) {
    const std::size_t size = spec_.distribution_size(), means = spec_.policy.outputs;
    const std::span<T> log_stds = log_stds_of(grads);
    std::fill(log_stds.begin(), log_stds.end(), T{0});
    means_.resize(values_grad.size() * means);
    for (std::size_t row = 0; row < values_grad.size(); ++row) {
      const std::span<const T> from = distribution_grad.subspan(row * size, size);
      std::copy_n(from.begin(), means, means_.begin() + static_cast<std::ptrdiff_t>(row * means));
      for (std::size_t k = 0; k < log_stds.size(); ++k) log_stds[k] += from[means + k];
    }
    policy_grad = means_;
  }
  if (trunk_) features_grad_.resize(features_.size()), more_grad_.resize(features_.size());
  policy_->backward(policy_of(params), policy_grad, policy_of(grads), features_grad_);
  value_->backward(value_of(params), values_grad, value_of(grads), more_grad_);
  if (!trunk_) return;
  for (std::size_t i = 0; i < features_grad_.size(); ++i) features_grad_[i] += more_grad_[i];
  trunk_->backward(trunk_of(params), features_grad_, trunk_of(grads));
}

template class ActorCritic<float>;
template class ActorCritic<double>;

std::vector<float> initial_parameters(const ActorCriticSpec& spec, Generator& generator) {
  std::vector<float> params(spec.parameter_count());
  std::span<float> rest(params);
  const auto fill = [&](const NetworkSpec& network) {
    initialize(network, generator, rest);
    rest = rest.subspan(network.parameter_count());
  };
  if (spec.trunk) fill(*spec.trunk);
  fill(spec.policy), fill(spec.value);
  std::fill(rest.begin(), rest.end(), static_cast<float>(spec.initial_log_std));
  return params;
}

}  // namespace rl
