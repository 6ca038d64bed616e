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

Learner::Learner(const LearnerOptions& options)
    : options_(options),
      net_(options.shape, options.isa),
      generator_(options.seed),
      all_(0, 0),
      minibatch_(0, 0),
      grads_(options.shape.parameter_count()) {
  state_.params = initial_parameters(options.shape, generator_);
  state_.first_moment.assign(state_.params.size(), 0.0f);
  state_.second_moment.assign(state_.params.size(), 0.0f);
}

UpdateStats Learner::update(std::span<const BatchView> batches) {
  gather_all(batches);
  const std::size_t samples = all_.action.size();
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
      stats.last = step(all_, samples, loss, stats);
    } else {
      for (std::size_t i = samples; i > 1; --i)
        std::swap(order_[i - 1], order_[generator_.integers(static_cast<std::uint32_t>(i))]);
      for (std::size_t begin = 0; begin < samples; begin += options_.minibatch) {
        const std::size_t rows = std::min(options_.minibatch, samples - begin);
        gather_minibatch(std::span(order_).subspan(begin, rows));
        stats.last = step(minibatch_, rows, loss, stats);
      }
    }
  }
  return stats;
}

void Learner::gather_all(std::span<const BatchView> batches) {
  all_ = OwnedBatch(0, 0);
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (const BatchView& batch : batches) {
    append(all_.obs, batch.obs), append(all_.action, batch.action), append(all_.log_prob, batch.log_prob);
    append(all_.value, batch.value), append(all_.advantage, batch.advantage), append(all_.returns, batch.returns);
  }
}

void Learner::gather_minibatch(std::span<const std::uint32_t> rows) {
  const std::size_t width = options_.shape.policy.inputs;
  if (minibatch_.action.size() != rows.size()) minibatch_ = OwnedBatch(rows.size(), width);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t row = rows[i];
    std::copy_n(all_.obs.begin() + static_cast<std::ptrdiff_t>(row * width), width,
                minibatch_.obs.begin() + static_cast<std::ptrdiff_t>(i * width));
    minibatch_.action[i] = all_.action[row];
    minibatch_.log_prob[i] = all_.log_prob[row];
    minibatch_.value[i] = all_.value[row];
    minibatch_.advantage[i] = all_.advantage[row];
    minibatch_.returns[i] = all_.returns[row];
  }
}

PpoScalars Learner::step(const OwnedBatch& minibatch, std::size_t rows, const PpoLossOptions& loss,
                         UpdateStats& stats) {
  net_.evaluate(state_.params, minibatch.obs, logits_, values_);
  logits_grad_.resize(logits_.size());
  values_grad_.resize(rows);
  const PpoMinibatch<float> input{minibatch.action, minibatch.log_prob, minibatch.value, minibatch.advantage,
                                  minibatch.returns};
  const PpoScalars scalars = ppo_loss<float>(input, logits_, values_, loss, logits_grad_, values_grad_, samples_);
  net_.backward(state_.params, logits_grad_, values_grad_, grads_);
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
