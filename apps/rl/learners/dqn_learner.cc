#include "apps/rl/learners/dqn_learner.h"

#include <cmath>

#include <fmt/format.h>

#include "apps/rl/samples/transitions.h"
#include "kernels/cpu/optimizer/optimizer.h"

namespace rl {
namespace {

const QNetworkSpec& checked_dqn(const DqnOptions& options) {
  check_q_network(options.policy).value();
  if (options.target.interval < 1 || !(options.target.tau > 0 && options.target.tau <= 1))
    troupe::InvalidArgumentError(fmt::format("DQN's target needs an interval of at least 1 and a tau in (0, 1], not "
                                             "{} and {}",
                                             options.target.interval, options.target.tau))
        .raise();
  return options.policy;
}

}  // namespace

DqnLearner::DqnLearner(const DqnOptions& options)
    : options_(options),
      gradient_(checked_dqn(options), {.target = options.td_target,
                                       .loss = options.loss,
                                       .isa = options.isa,
                                       .gpu = options.gpu}),
      encoder_(ObservationEncoder::make(options.policy.observation_space).value()),
      params_(options.policy.network.parameter_count()),
      first_moment_(params_.size()),
      second_moment_(params_.size()),
      grads_(params_.size()) {
  Generator generator(options.seed);
  initialize(options.policy.network, generator, params_);
  target_ = params_;
}

UpdateReport DqnLearner::update(std::span<const SampleView> batches) {
  if (batches.size() == 1) return step(batches.front());
  return step(concatenate(batches).view());
}

TdScalars DqnLearner::differentiate(const TransitionView& all) {
  if (all.rows() < peers_.size())
    troupe::InvalidArgumentError(fmt::format("DQN: a minibatch of {} rows for {} learners", all.rows(), peers_.size()))
        .raise();
  const std::span<const std::int64_t> action = all.action.as<std::int64_t>();
  gradient_.check_actions(action);  // all learners see a wrong one
  const Peers::Part part = peers_.part(all.rows());
  const auto own = [&](auto numbers) { return numbers.subspan(part.begin, part.size); };
  const std::size_t inputs = options_.policy.network.inputs();
  const auto own_obs = [&](std::span<const float> obs) {
    return obs.subspan(part.begin * inputs, part.size * inputs);
  };
  const std::size_t actions = options_.policy.actions();
  const std::span<const std::uint8_t> own_mask =
      all.next_mask.empty() ? all.next_mask : all.next_mask.subspan(part.begin * actions, part.size * actions);
  errors_.assign(all.rows(), 0);
  const TdScalars s = gradient_.evaluate(params_, target_,
                                         {.obs = own_obs(encoder_.encode(all.obs, obs_)),
                                          .next_obs = own_obs(encoder_.encode(all.next_obs, next_obs_)),
                                          .action = own(action),
                                          .reward = own(all.reward),
                                          .discount = own(all.discount),
                                          .weight = all.weight.empty() ? all.weight : own(all.weight),
                                          .next_mask = own_mask,
                                          .whole = all.rows()},
                                         grads_, own(std::span(errors_)));
  if (peers_.alone()) return s;
  errors_.insert(errors_.end(), {s.loss, s.abs_error, s.q, s.target});  // one sum for all: zeros change no bit
  peers_.sum(errors_);
  peers_.sum(grads_);
  const auto sums = std::span(errors_).last(4);
  const TdScalars out{.loss = sums[0], .abs_error = sums[1], .q = sums[2], .target = sums[3]};
  errors_.resize(all.rows());
  return out;
}

UpdateReport DqnLearner::step(const SampleView& samples) {
  const TransitionView all =
      transition_view(samples, options_.policy.observation_space, options_.policy.action_space);
  if (all.rows() == 0) troupe::InvalidArgumentError("a minibatch without rows").raise();
  const TdScalars scalars = differentiate(all);
  const double norm = troupe::kernels::global_norm<float>(grads_);
  if (!std::isfinite(scalars.loss) || !std::isfinite(norm))  // LRN-3
    troupe::InvalidArgumentError(
        fmt::format("DQN's loss is {} and its gradient's norm {}, after {} updates", scalars.loss, norm, updates_))
        .raise();
  const double learning_rate = options_.learning_rate.at(updates_);
  troupe::kernels::adam_step<float>(options_.isa, {params_, grads_, first_moment_, second_moment_}, ++updates_,
                                    troupe::kernels::clip_scale(norm, options_.max_grad_norm),
                                    {.learning_rate = learning_rate, .epsilon = options_.adam_epsilon});
  if (updates_ % options_.target.interval == 0)
    troupe::kernels::move_towards<float>(options_.isa, target_, params_, options_.target.tau);
  UpdateReport report{.metrics = {{"loss", scalars.loss},
                                  {"td_error", scalars.abs_error},
                                  {"q", scalars.q},
                                  {"target", scalars.target},
                                  {"learning_rate", learning_rate},
                                  {"grad_norm", norm}},
                      .td_errors = std::vector<float>(all.rows())};
  for (std::size_t row = 0; row < all.rows(); ++row)
    report.td_errors[row] = static_cast<float>(std::abs(errors_[row]));
  return report;
}

StateDict DqnLearner::save() const {
  StateDict out;
  out.put("params", params_), out.put("target", target_);
  out.put("adam/first_moment", first_moment_), out.put("adam/second_moment", second_moment_);
  out.put_one("updates", updates_);
  return out;
}

void DqnLearner::restore(const StateDict& state) {
  const std::size_t count = params_.size();
  const auto& params = state.get<float>("params", count);
  const auto& target = state.get<float>("target", count);
  const auto& first = state.get<float>("adam/first_moment", count);
  const auto& second = state.get<float>("adam/second_moment", count);
  updates_ = state.get_one<std::int64_t>("updates");
  params_ = params, target_ = target, first_moment_ = first, second_moment_ = second;
}

}  // namespace rl
