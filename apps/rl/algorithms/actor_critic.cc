#include "apps/rl/algorithms/actor_critic.h"

#include <cmath>
#include <numbers>

namespace rl {
namespace {

using troupe::kernels::MlpShape;

// Orthonormal rows (or columns, when there are more rows than columns) by Gram-Schmidt, times the gain.
void orthogonal(std::span<float> weights, std::size_t rows, std::size_t columns, double gain, Generator& generator) {
  const bool tall = rows > columns;
  const std::size_t count = tall ? columns : rows;
  const std::size_t length = tall ? rows : columns;
  std::vector<std::vector<double>> basis;
  while (basis.size() < count) {
    std::vector<double> v(length);
    for (double& x : v) x = standard_normal(generator);
    for (const std::vector<double>& b : basis) {
      double dot = 0;
      for (std::size_t i = 0; i < length; ++i) dot += v[i] * b[i];
      for (std::size_t i = 0; i < length; ++i) v[i] -= dot * b[i];
    }
    double squares = 0;
    for (double x : v) squares += x * x;
    if (squares < 1e-12) continue;  // as good as dependent: draw again
    for (double& x : v) x /= std::sqrt(squares);
    basis.push_back(std::move(v));
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      weights[r * columns + c] = static_cast<float>(gain * (tall ? basis[c][r] : basis[r][c]));
    }
  }
}

void initialize(std::span<float> params, const MlpShape& s, double last_gain, Generator& generator) {
  orthogonal(params.subspan(s.w0(), s.hidden1 * s.inputs), s.hidden1, s.inputs, std::numbers::sqrt2, generator);
  orthogonal(params.subspan(s.w1(), s.hidden2 * s.hidden1), s.hidden2, s.hidden1, std::numbers::sqrt2, generator);
  orthogonal(params.subspan(s.w2(), s.outputs * s.hidden2), s.outputs, s.hidden2, last_gain, generator);
}

}  // namespace

ActorCriticShape actor_critic_shape(std::size_t obs_size, std::size_t num_actions, std::size_t hidden) {
  return {.policy = {.inputs = obs_size, .hidden1 = hidden, .hidden2 = hidden, .outputs = num_actions},
          .value = {.inputs = obs_size, .hidden1 = hidden, .hidden2 = hidden, .outputs = 1}};
}

template <class T>
void ActorCritic<T>::evaluate(std::span<const T> params, std::span<const T> obs, std::vector<T>& logits,
                              std::vector<T>& values) {
  logits.resize(obs.size() / shape_.policy.inputs * shape_.policy.outputs);
  troupe::kernels::mlp_forward<T>(isa_, params.first(split()), obs, policy_tape_, logits);
  evaluate_values(params, obs, values);
}

template <class T>
void ActorCritic<T>::evaluate_values(std::span<const T> params, std::span<const T> obs, std::vector<T>& values) {
  values.resize(obs.size() / shape_.value.inputs);
  troupe::kernels::mlp_forward<T>(isa_, params.subspan(split()), obs, value_tape_, values);
}

template <class T>
void ActorCritic<T>::backward(std::span<const T> params, std::span<const T> logits_grad, std::span<const T> values_grad,
                              std::span<T> grads) {
  troupe::kernels::mlp_backward<T>(isa_, params.first(split()), logits_grad, policy_tape_, grads.first(split()));
  troupe::kernels::mlp_backward<T>(isa_, params.subspan(split()), values_grad, value_tape_, grads.subspan(split()));
}

template class ActorCritic<float>;
template class ActorCritic<double>;

std::vector<float> initial_parameters(const ActorCriticShape& shape, Generator& generator) {
  std::vector<float> params(shape.parameter_count(), 0.0f);
  const std::span<float> all(params);
  const std::size_t split = shape.policy.parameter_count();
  initialize(all.first(split), shape.policy, 0.01, generator);
  initialize(all.subspan(split), shape.value, 1.0, generator);
  return params;
}

}  // namespace rl
