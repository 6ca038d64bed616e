#include "apps/rl/training/learner.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace rl {

double LinearDecay::at(std::int64_t steps) const {
  const double passed =
      std::clamp(static_cast<double>(steps) / static_cast<double>(std::max<std::int64_t>(over_steps, 1)), 0.0, 1.0);
  return first + (last - first) * passed;
}

namespace {

const PolicySpec& checked(const PolicySpec& policy) {
  check_policy(policy).value();
  return policy;
}

}  // namespace

Learner::Learner(const LearnerOptions& options)
    : options_(options),
      net_(checked(options.policy).networks, options.isa),
      generator_(options.seed),
      encoder_(ObservationEncoder::make(options.policy.observation_space).value()),
      distribution_(make_distribution<float>(options.policy.action_space).value()),
      grads_(options.policy.networks.parameter_count()) {
  state_.params = initial_parameters(options.policy.networks, generator_);
  state_.first_moment.assign(state_.params.size(), 0.0f);
  state_.second_moment.assign(state_.params.size(), 0.0f);
}

UpdateStats Learner::update(std::span<const SampleView> batches) {
  const OwnedSamples joined = concatenate(batches);
  const OnPolicyView all = on_policy_view(joined.view());
  const std::size_t samples = all.rows();
  state_.env_steps += static_cast<std::int64_t>(samples);
  order_.resize(samples);
  std::iota(order_.begin(), order_.end(), 0u);
  const PpoLossOptions loss{.clip = options_.clip.at(state_.env_steps),
                            .value_coefficient = options_.value_coefficient,
                            .entropy_coefficient = options_.entropy_coefficient};
  UpdateStats stats;
  stats.learning_rate = options_.learning_rate.at(state_.env_steps);
  for (int epoch = 0; epoch < options_.epochs; ++epoch) {
    if (options_.minibatch >= samples) {
      stats.last = step(all, loss, stats);
    } else {
      for (std::size_t i = samples; i > 1; --i)
        std::swap(order_[i - 1], order_[generator_.integers(static_cast<std::uint32_t>(i))]);
      for (std::size_t begin = 0; begin < samples; begin += options_.minibatch) {
        const std::size_t rows = std::min(options_.minibatch, samples - begin);
        gather_minibatch(all, std::span(order_).subspan(begin, rows));
        stats.last = step(on_policy_view(minibatch_.view()), loss, stats);
      }
    }
  }
  return stats;
}

void Learner::gather_minibatch(const OnPolicyView& all, std::span<const std::uint32_t> rows) {
  if (minibatch_.rows() != rows.size()) {
    minibatch_ = OwnedSamples(on_policy_columns(options_.policy.observation_space, options_.policy.action_space),
                              rows.size());
  }
  const OnPolicyOut out = on_policy_out(minibatch_.layout(), minibatch_.memory());
  gather(all.obs, rows, out.obs);
  gather(all.action, rows, out.action);
  const auto numbers = [&](std::span<const float> from, std::span<float> to) {
    for (std::size_t i = 0; i < rows.size(); ++i) to[i] = from[rows[i]];
  };
  numbers(all.log_prob, out.log_prob), numbers(all.value, out.value);
  numbers(all.advantage, out.advantage), numbers(all.returns, out.returns);
}

PpoScalars Learner::step(const OnPolicyView& minibatch, const PpoLossOptions& loss, UpdateStats& stats) {
  net_.evaluate(state_.params, encoder_.encode(minibatch.obs, encoded_), action_params_, values_);
  for (auto* column : {&log_prob_, &entropy_, &log_prob_grad_, &entropy_grad_, &values_grad_})
    column->resize(minibatch.rows());
  action_params_grad_.resize(action_params_.size());
  distribution_->evaluate({action_params_}, minibatch.action, log_prob_, entropy_);
  const PpoScalars scalars =
      ppo_loss<float>({minibatch.log_prob, minibatch.value, minibatch.advantage, minibatch.returns},
                      {log_prob_, entropy_, values_}, loss, {log_prob_grad_, entropy_grad_, values_grad_}, samples_);
  distribution_->backward({action_params_}, minibatch.action, log_prob_grad_, entropy_grad_, action_params_grad_);
  net_.backward(state_.params, action_params_grad_, values_grad_, grads_);
  stats.grad_norm = troupe::kernels::global_norm<float>(grads_);
  const double scale = troupe::kernels::clip_scale(stats.grad_norm, options_.max_grad_norm);
  troupe::kernels::adam_step<float>(options_.isa, {state_.params, grads_, state_.first_moment, state_.second_moment},
                                    ++state_.optimizer_steps, scale,
                                    {.learning_rate = stats.learning_rate, .epsilon = options_.adam_epsilon});
  ++stats.minibatches;
  const auto into = [&](double& mean, double value) { mean += (value - mean) / stats.minibatches; };
  into(stats.kl, scalars.approx_kl_k3), into(stats.clip_fraction, scalars.clip_fraction),
      into(stats.entropy, scalars.entropy);
  return scalars;
}

LearnerState Learner::save() const {
  LearnerState out = state_;
  out.generator = generator_.save();
  return out;
}

void Learner::restore(LearnerState state) {
  generator_.restore(state.generator);
  state_ = std::move(state);
}

}  // namespace rl
