#include "apps/rl/learners/actor_critic_gradient.h"

#include <algorithm>
#include <type_traits>

namespace rl {
namespace {

const PolicySpec& checked_actor_critic_policy(const PolicySpec& policy) {
  check_policy(policy).value();
  return policy;
}

}  // namespace

template <class T>
ActorCriticGradient<T>::ActorCriticGradient(const PolicySpec& spec, troupe::kernels::Isa isa,
                                            const std::optional<Gpu>& gpu)
    : net_(checked_actor_critic_policy(spec).networks, isa, gpu),
      encoder_(ObservationEncoder::make(spec.observation_space).value()),
      distribution_(make_distribution<T>(spec.action_space).value()),
      grads_(spec.networks.parameter_count()) {}

template <class T>
std::span<const T> ActorCriticGradient<T>::encode(ConstRows obs) {
  const std::span<const float> encoded = encoder_.encode(obs, encoded_);
  if constexpr (std::is_same_v<T, float>) return encoded;
  else {
    converted_.assign(encoded.begin(), encoded.end());
    return converted_;
  }
}

template <class T>
auto ActorCriticGradient<T>::evaluate(std::span<const T> params, ConstRows obs, ConstRows actions, ConstRows mask)
    -> Evaluation {
  net_.evaluate(params, encode(obs), action_params_, values_);
  for (auto* column : {&log_prob_, &entropy_}) column->resize(obs.rows());
  for (auto* column : {&d_log_prob_, &d_entropy_, &d_value_}) column->assign(obs.rows(), T{});
  mask_ = mask.rows() == 0 ? std::span<const std::uint8_t>() : mask.as<std::uint8_t>();
  distribution_->evaluate({action_params_, mask_}, actions, log_prob_, entropy_);
  actions_ = actions;
  return {log_prob_, entropy_, values_};
}

template <class T>
std::span<T> ActorCriticGradient<T>::no_gradients() {
  std::ranges::fill(grads_, T{});
  return grads_;
}

template <class T>
std::span<T> ActorCriticGradient<T>::backward(std::span<const T> params) {
  d_action_params_.resize(action_params_.size());
  distribution_->backward({action_params_, mask_}, actions_, d_log_prob_, d_entropy_, d_action_params_);
  net_.backward(params, d_action_params_, d_value_, grads_);
  return grads_;
}

template <class T>
std::span<const T> ActorCriticGradient<T>::values(std::span<const T> params, ConstRows obs) {
  net_.evaluate_values(params, encode(obs), values_);
  return values_;
}

template class ActorCriticGradient<float>;
template class ActorCriticGradient<double>;

}  // namespace rl
