#include "apps/rl/learners/a2c_learner.h"

#include <cmath>

#include <fmt/format.h>

#include "apps/rl/algorithms/a2c_loss.h"
#include "apps/rl/algorithms/ppo_loss.h"
#include "apps/rl/samples/on_policy.h"

namespace rl {

A2cLearner::A2cLearner(const A2cOptions& options)
    : options_(options),
      gradient_(options.policy, options.isa, options.gpu),
      optimizer_(options.optimizer, options.policy.networks.parameter_count()) {
  Generator generator(options.seed);
  params_ = initial_parameters(options.policy.networks, generator);
}

UpdateReport A2cLearner::update(std::span<const SampleView> batches) {
  const OwnedSamples joined = concatenate(batches);
  const OnPolicyView all = on_policy_view(joined.view());
  if (all.rows() == 0) return {};  // LRN-5
  const auto now = gradient_.evaluate(params_, all.obs, all.action, all.mask);
  const auto derivatives = gradient_.derivatives();
  const A2cScalars scalars =
      a2c_loss<float>(all.advantage, all.returns, now.log_prob, now.entropy, now.value,
                      {.value_coefficient = options_.value_coefficient,
                       .entropy_coefficient = options_.entropy_coefficient,
                       .normalize_advantage = options_.normalize_advantage},
                      derivatives.log_prob, derivatives.entropy, derivatives.value);
  const std::int64_t steps = env_steps_ + static_cast<std::int64_t>(all.rows());
  const double learning_rate = options_.learning_rate.at(steps);
  const auto refuse = [&](double norm) {  // LRN-3
    troupe::InvalidArgumentError(fmt::format("A2C's loss is {} and its gradient's norm {}, after {} samples",
                                             scalars.total_loss, norm, steps))
        .raise();
  };
  if (!std::isfinite(scalars.total_loss)) refuse(0);
  const double norm = optimizer_.step(params_, gradient_.backward(params_), learning_rate);
  if (!std::isfinite(norm)) refuse(norm);
  env_steps_ = steps;
  return {.metrics = {{"policy_loss", scalars.policy_loss},
                      {"value_loss", scalars.value_loss},
                      {"loss", scalars.total_loss},
                      {"entropy", scalars.entropy},
                      {"grad_norm", norm},
                      {"explained_variance", explained_variance(all.value, all.returns)},
                      {"learning_rate", learning_rate}},
          .td_errors = {}};
}

StateDict A2cLearner::save() const {
  StateDict out;
  out.put("params", params_);
  out.put_all("optimizer", optimizer_.save());
  out.put_one("env_steps", env_steps_);
  return out;
}

void A2cLearner::restore(const StateDict& state) {
  const auto& params = state.get<float>("params", params_.size());
  const auto env_steps = state.get_one<std::int64_t>("env_steps");
  optimizer_.restore(state.get_all("optimizer"));
  params_ = params, env_steps_ = env_steps;
}

}  // namespace rl
