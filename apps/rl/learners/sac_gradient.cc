#include "apps/rl/learners/sac_gradient.h"

#include <algorithm>
#include <cmath>

#include "apps/rl/algorithms/sac.h"
#include "apps/rl/policies/squashed_gaussian.h"

namespace rl {

SacNetworks sac_networks(const NetworkSpec& actor, const std::vector<std::size_t>& critic_hidden,
                         Activation activation) {
  return {.actor = actor,
          .critic = {.input = {actor.inputs() + actor.outputs / 2},
                     .hidden = critic_hidden,
                     .activation = activation,
                     .outputs = 1,
                     .output_gain = 0.1}};  // first values near 0
}

template <class T>
SacGradient<T>::SacGradient(const SacNetworks& networks, troupe::kernels::Isa isa, const std::optional<Gpu>& gpu)
    : inputs_(networks.actor.inputs()),
      dimensions_(networks.dimensions()),
      critic_count_(networks.critic.parameter_count()),
      actor_(make_network<T>(networks.actor, {.isa = isa, .gpu = gpu})) {
  for (auto& critic : critics_)
    critic = make_network<T>(networks.critic, {.isa = isa, .input_gradients = true, .gpu = gpu});
}

template <class T>
void SacGradient<T>::act(std::span<const T> actor, const SacBatch<T>& batch, std::span<const double> noise,
                         std::span<const double> next_noise) {
  const std::size_t rows = batch.rows();
  outputs_.resize(rows * 2 * dimensions_), next_outputs_.resize(outputs_.size());
  action_.resize(rows * dimensions_), next_action_.resize(action_.size());
  log_prob_.resize(rows), next_log_prob_.resize(rows);
  actor_->forward(actor, batch.next_obs, next_outputs_);
  actor_->forward(actor, batch.obs, outputs_);  // last: actor() goes back through it
  squash<T>(dimensions_, next_outputs_, next_noise, next_action_, next_log_prob_);
  squash<T>(dimensions_, outputs_, noise, action_, log_prob_);
  noise_.assign(noise.begin(), noise.end());
}

template <class T>
void SacGradient<T>::join(std::span<const T> obs, std::span<const T> action) {
  const std::size_t rows = action.size() / dimensions_;
  joined_.resize(rows * (inputs_ + dimensions_));
  T* to = joined_.data();
  for (std::size_t row = 0; row < rows; ++row) {
    to = std::copy_n(obs.data() + row * inputs_, inputs_, to);
    to = std::copy_n(action.data() + row * dimensions_, dimensions_, to);
  }
}

template <class T>
void SacGradient<T>::values(std::span<const T> critics) {
  const std::size_t rows = joined_.size() / (inputs_ + dimensions_);
  for (std::size_t i = 0; i < 2; ++i) {
    q_[i].resize(rows), dq_[i].resize(rows);
    critics_[i]->forward(part(critics, i), joined_, q_[i]);
    wide_q_[i].assign(q_[i].begin(), q_[i].end());
  }
}

template <class T>
SacCriticScalars SacGradient<T>::critic(std::span<const T> critics, std::span<const T> targets,
                                        const SacBatch<T>& batch, double alpha, std::span<T> grads,
                                        std::span<double> errors) {
  const std::size_t rows = batch.rows();
  join(batch.next_obs, next_action_);
  values(targets);
  targets_.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto discount = static_cast<double>(batch.discount[row]);
    targets_[row] = sac_target({.reward = static_cast<double>(batch.reward[row]),
                                .terminated = discount == 0,
                                .q1_target_next = wide_q_[0][row],
                                .q2_target_next = wide_q_[1][row],
                                .next_log_prob = next_log_prob_[row]},
                               discount, alpha);
  }
  join(batch.obs, batch.action);
  values(critics);
  const double count = batch.count();
  SacCriticScalars out;
  for (std::size_t row = 0; row < rows; ++row) {
    const double weight = batch.weight.empty() ? 1 : static_cast<double>(batch.weight[row]);
    errors[row] = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const double error = wide_q_[i][row] - targets_[row];
      dq_[i][row] = static_cast<T>(2 * weight * error / count);
      out.loss += weight * error * error / count;
      out.q += 0.5 * wide_q_[i][row] / count;
      errors[row] += 0.5 * std::abs(error);
    }
    out.target += targets_[row] / count;
  }
  for (std::size_t i = 0; i < 2; ++i) critics_[i]->backward(part(critics, i), dq_[i], part(grads, i));
  return out;
}

template <class T>
double SacGradient<T>::actor(std::span<const T> actor, std::span<const T> critics, const SacBatch<T>& batch,
                             double alpha, std::span<T> grads) {
  const std::size_t rows = batch.rows(), width = inputs_ + dimensions_;
  const double count = batch.count();
  join(batch.obs, action_);
  values(critics);
  for (std::size_t row = 0; row < rows; ++row) {
    const bool second = wide_q_[1][row] < wide_q_[0][row];
    dq_[0][row] = second ? T{0} : static_cast<T>(-1 / count);
    dq_[1][row] = second ? static_cast<T>(-1 / count) : T{0};
  }
  d_joined_.resize(joined_.size()), d_action_.resize(action_.size()), d_outputs_.resize(outputs_.size());
  for (std::size_t i = 0; i < 2; ++i) {
    critics_[i]->backward(part(critics, i), dq_[i], {}, d_joined_);  // NET-5
    for (std::size_t at = 0; at < d_action_.size(); ++at) {
      const T slope = d_joined_[at / dimensions_ * width + inputs_ + at % dimensions_];
      d_action_[at] = i == 0 ? slope : d_action_[at] + slope;
    }
  }
  squash_backward<T>(dimensions_, outputs_, noise_, action_, d_action_, alpha / count, d_outputs_);
  actor_->backward(actor, d_outputs_, grads);
  return sac_actor_loss(log_prob_, wide_q_[0], wide_q_[1], alpha) * static_cast<double>(rows) / count;
}

template class SacGradient<float>;
template class SacGradient<double>;

}  // namespace rl
