#include "apps/rl/learners/impala_learner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/algorithms/linked_vtrace.h"

namespace rl {
namespace {

constexpr double kMostOldRatio = 2;  // RLlib's

}  // namespace

ImpalaLearner::ImpalaLearner(const ImpalaOptions& options)
    : options_(options),
      gradient_(options.policy, options.isa, options.gpu),
      optimizer_(options.optimizer, options.policy.networks.parameter_count()) {
  if (options.target_interval != 0 && !(options.clip > 0))
    troupe::InvalidArgumentError("target_update_interval needs a surrogate_clip: V-trace's own gradient has no use for "
                                 "an older policy")
        .raise();
  Generator generator(options.seed);
  params_ = initial_parameters(options.policy.networks, generator);
  if (options.target_interval != 0) old_params_ = params_;
}

UpdateReport ImpalaLearner::update(std::span<const SampleView> batches) {
  const OwnedSamples joined = join_fragments(batches);
  const auto next = joined.view().column("next").as<std::int64_t>();
  const auto transitions = std::ranges::count_if(next, [](std::int64_t one) { return one >= 0; });
  if (transitions == 0) return {};  // LRN-5
  const OwnedSamples own = peers_.alone() ? OwnedSamples() : chains_of(joined.view(), peers_.rank(), peers_.size());
  Scalars scalars;
  std::span<float> grads = gradient_.no_gradients();
  if (peers_.alone() || own.rows() != 0) {
    scalars = differentiate(fragment_view(peers_.alone() ? joined.view() : own.view()),
                            static_cast<double>(transitions));
    grads = gradient_.backward(params_);
  }
  add_up(scalars);
  peers_.sum(grads);
  const std::int64_t steps = env_steps_ + transitions;
  const double learning_rate = options_.learning_rate.at(steps);
  const auto refuse = [&](double norm) {  // LRN-3
    troupe::InvalidArgumentError(fmt::format("IMPALA's loss is {} and its gradient's norm {}, after {} transitions",
                                             scalars.loss, norm, steps))
        .raise();
  };
  if (!std::isfinite(scalars.loss)) refuse(0);
  const double norm = optimizer_.step(params_, grads, learning_rate);
  if (!std::isfinite(norm)) refuse(norm);
  env_steps_ = steps;
  if (++updates_, options_.target_interval != 0 && updates_ % options_.target_interval == 0) old_params_ = params_;
  return {.metrics = {{"policy_loss", scalars.policy_loss},
                      {"value_loss", scalars.value_loss},
                      {"loss", scalars.loss},
                      {"entropy", scalars.entropy},
                      {"kl", scalars.kl},
                      {"grad_norm", norm},
                      {"learning_rate", learning_rate}},
          .td_errors = {}};
}

void ImpalaLearner::add_up(Scalars& s) const {
  std::array all{s.policy_loss, s.value_loss, s.entropy, s.kl, s.loss};
  peers_.sum(all);
  s = {.policy_loss = all[0], .value_loss = all[1], .entropy = all[2], .kl = all[3], .loss = all[4]};
}

std::span<const float> ImpalaLearner::old_log_prob(const FragmentView& own) {
  if (old_params_.empty()) return {};
  const auto old = gradient_.evaluate(old_params_, own.obs, own.action, own.mask);
  old_log_prob_.assign(old.log_prob.begin(), old.log_prob.end());
  return old_log_prob_;
}

double ImpalaLearner::surrogate(double advantage, double log_ratio, std::optional<double> old_log_ratio,
                                double& slope) const {
  double ratio = std::exp(log_ratio);
  if (old_log_ratio) {
    ratio *= std::min(std::exp(-*old_log_ratio), kMostOldRatio);
  } else {
    // V-trace's advantage has the (clipped) ratio in it already, as of pg_rho_bar: here the surrogate brings its own.
    advantage /= std::max(std::min(options_.vtrace.pg_rho_bar, ratio), 1e-8);
  }
  const double clipped = std::clamp(ratio, 1 - options_.clip, 1 + options_.clip);
  const bool is_clipped = clipped * advantage < ratio * advantage;
  slope = is_clipped ? 0.0 : -ratio * advantage;
  return -(is_clipped ? clipped : ratio) * advantage;
}

ImpalaLearner::Scalars ImpalaLearner::differentiate(const FragmentView& all, double count) {
  const std::span<const float> old = old_log_prob(all);
  const auto now = gradient_.evaluate(params_, all.obs, all.action, all.mask);
  targets_.resize(all.rows()), advantages_.resize(all.rows());
  linked_vtrace<float>({.behaviour_log_prob = all.log_prob,
                        .target_log_prob = old.empty() ? now.log_prob : old,
                        .discount = all.discount,
                        .reward = all.reward,
                        .value = now.value,
                        .next = all.next},
                       options_.vtrace, targets_, advantages_);
  const auto derivatives = gradient_.derivatives();
  Scalars out;
  for (std::size_t i = 0; i < all.rows(); ++i) {
    if (all.next[i] < 0) continue;  // its derivatives stay 0
    const double log_ratio = static_cast<double>(now.log_prob[i]) - static_cast<double>(all.log_prob[i]);
    const double ratio = std::exp(log_ratio);
    const auto advantage = static_cast<double>(advantages_[i]);
    if (options_.clip > 0) {
      std::optional<double> old_log_ratio;
      if (!old.empty()) old_log_ratio = static_cast<double>(old[i]) - static_cast<double>(all.log_prob[i]);
      double slope = 0;
      out.policy_loss += surrogate(advantage, log_ratio, old_log_ratio, slope) / count;
      derivatives.log_prob[i] = static_cast<float>(slope / count);
    } else {
      out.policy_loss -= advantage * static_cast<double>(now.log_prob[i]) / count;
      derivatives.log_prob[i] = static_cast<float>(-advantage / count);
    }
    const double error = static_cast<double>(now.value[i]) - static_cast<double>(targets_[i]);
    out.value_loss += error * error / count;
    derivatives.value[i] = static_cast<float>(2 * options_.value_coefficient * error / count);
    out.entropy += static_cast<double>(now.entropy[i]) / count;
    derivatives.entropy[i] = static_cast<float>(-options_.entropy_coefficient / count);
    out.kl += (ratio - 1 - log_ratio) / count;
  }
  out.loss = out.policy_loss - options_.entropy_coefficient * out.entropy +
             options_.value_coefficient * out.value_loss;
  return out;
}

StateDict ImpalaLearner::save() const {
  StateDict out;
  out.put("params", params_);
  out.put_all("optimizer", optimizer_.save());
  out.put_one("env_steps", env_steps_);
  if (!old_params_.empty()) out.put("old_params", old_params_), out.put_one("updates", updates_);
  return out;
}

void ImpalaLearner::restore(const StateDict& state) {
  const auto& params = state.get<float>("params", params_.size());
  const auto env_steps = state.get_one<std::int64_t>("env_steps");
  std::vector<float> old_params;
  std::int64_t updates = 0;
  if (!old_params_.empty()) {
    old_params = state.get<float>("old_params", old_params_.size());
    updates = state.get_one<std::int64_t>("updates");
  }
  optimizer_.restore(state.get_all("optimizer"));
  params_ = params, old_params_ = std::move(old_params), env_steps_ = env_steps, updates_ = updates;
}

}  // namespace rl
