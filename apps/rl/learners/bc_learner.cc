#include "apps/rl/learners/bc_learner.h"

#include <cmath>

#include <fmt/format.h>

namespace rl {

BcLearner::BcLearner(const BcOptions& options)
    : options_(options),
      gradient_(options.policy, options.isa, options.gpu),
      optimizer_(options.optimizer, options.policy.networks.parameter_count()) {
  Generator generator(options.seed);
  params_ = initial_parameters(options.policy.networks, generator);
}

UpdateReport BcLearner::update(std::span<const SampleView> batches) {
  const OwnedSamples joined = concatenate(batches);
  const SampleView all = joined.view();
  const auto now = gradient_.evaluate(params_, all.column("obs"), all.column("action"),
                                      all.has(kMaskColumn) ? all.column(kMaskColumn) : ConstRows());
  const auto derivatives = gradient_.derivatives();
  const auto count = static_cast<double>(all.rows());
  double log_prob = 0, entropy = 0;
  for (std::size_t i = 0; i < all.rows(); ++i) {
    log_prob += static_cast<double>(now.log_prob[i]) / count;
    entropy += static_cast<double>(now.entropy[i]) / count;
    derivatives.log_prob[i] = static_cast<float>(-1 / count);
    derivatives.entropy[i] = static_cast<float>(-options_.entropy_coefficient / count);
  }
  const double loss = -log_prob - options_.entropy_coefficient * entropy;
  const std::int64_t samples = samples_ + static_cast<std::int64_t>(all.rows());
  const double learning_rate = options_.learning_rate.at(samples);
  const auto refuse = [&](double norm) {  // LRN-3
    troupe::InvalidArgumentError(
        fmt::format("the loss is {} and its gradient's norm {}, after {} samples", loss, norm, samples))
        .raise();
  };
  if (!std::isfinite(loss)) refuse(0);
  const double norm = optimizer_.step(params_, gradient_.backward(params_), learning_rate);
  if (!std::isfinite(norm)) refuse(norm);
  samples_ = samples;
  return {.metrics = {{"loss", loss},
                      {"log_prob", log_prob},
                      {"entropy", entropy},
                      {"grad_norm", norm},
                      {"learning_rate", learning_rate}},
          .td_errors = {}};
}

StateDict BcLearner::save() const {
  StateDict out;
  out.put("params", params_);
  out.put_all("optimizer", optimizer_.save());
  out.put_one("samples", samples_);
  return out;
}

void BcLearner::restore(const StateDict& state) {
  const auto& params = state.get<float>("params", params_.size());
  const auto samples = state.get_one<std::int64_t>("samples");
  optimizer_.restore(state.get_all("optimizer"));
  params_ = params, samples_ = samples;
}

}  // namespace rl
