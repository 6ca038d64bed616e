#include "apps/rl/learners/sac_learner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/algorithms/sac.h"
#include "kernels/cpu/optimizer/optimizer.h"

namespace rl {
namespace {

SacNetworks checked_sac(const SacOptions& options) {
  check_squashed_gaussian(options.policy).value();
  const double alpha = options.temperature.fixed.value_or(options.temperature.first);
  if (!(alpha > 0) || !std::isfinite(alpha))
    troupe::InvalidArgumentError(fmt::format("SAC's temperature has to be above 0, not {}", alpha)).raise();
  if (!(options.tau > 0 && options.tau <= 1) || options.target_interval < 1)
    troupe::InvalidArgumentError(fmt::format("SAC's targets need an interval of at least 1 and a tau in (0, 1], not "
                                             "{} and {}",
                                             options.target_interval, options.tau))
        .raise();
  SacNetworks out = sac_networks(options.policy.network, options.critic_hidden, options.critic_activation);
  check_network(out.critic).value();
  return out;
}

}  // namespace

SacLearner::SacLearner(const SacOptions& options)
    : options_(options),
      networks_(checked_sac(options)),
      target_entropy_(options.temperature.target_entropy.value_or(-static_cast<double>(networks_.dimensions()))),
      scale_(std::get<Box>(options.policy.action_space)),
      encoder_(ObservationEncoder::make(options.policy.observation_space).value()),
      gradient_(networks_, options.isa, options.gpu),
      generator_(options.seed),
      actor_(networks_.actor.parameter_count()),
      critics_(2 * networks_.critic.parameter_count()),
      log_alpha_(std::log(options.temperature.fixed.value_or(options.temperature.first))) {
  initialize(networks_.actor, generator_, actor_.params);
  const std::span<float> both(critics_.params);
  initialize(networks_.critic, generator_, both.first(both.size() / 2));
  initialize(networks_.critic, generator_, both.last(both.size() / 2));
  targets_ = critics_.params;
}

double SacLearner::alpha() const { return options_.temperature.fixed.value_or(std::exp(log_alpha_)); }

UpdateReport SacLearner::update(std::span<const SampleView> batches) {
  if (batches.size() == 1) return step(batches.front());
  return step(concatenate(batches).view());
}

SacBatch<float> SacLearner::read(const TransitionView& all) {
  action_.resize(all.rows() * networks_.dimensions());
  scale_.from_box(all.action.as<float>(), action_);  // SAL-2
  return {.obs = encoder_.encode(all.obs, obs_),
          .next_obs = encoder_.encode(all.next_obs, next_obs_),
          .action = action_,
          .reward = all.reward,
          .discount = all.discount,
          .weight = all.weight};
}

void SacLearner::prepare() {
  if (std::exchange(targets_wait_, false)) move(targets_);
  if (before_noise_ || errors_.empty()) return;
  const Generator::Saved before = generator_.save();
  draw_noise(errors_.size());  // for as many rows as last time
  before_noise_ = before;
}

void SacLearner::move(std::span<float> targets) const {
  troupe::kernels::move_towards<float>(options_.isa, targets, critics_.params, options_.tau);
}

void SacLearner::draw_noise(std::size_t rows) {
  const std::size_t dimensions = networks_.dimensions();
  if (before_noise_) {
    const bool fits = noise_.size() == rows * dimensions;
    if (!fits) generator_.restore(*before_noise_);
    before_noise_.reset();
    if (fits) return;
  }
  noise_.resize(rows * dimensions), next_noise_.resize(rows * dimensions);
  for (std::size_t row = 0; row < rows; ++row) {  // SAL-1
    for (std::size_t k = 0; k < dimensions; ++k) noise_[row * dimensions + k] = standard_normal(generator_);
    for (std::size_t k = 0; k < dimensions; ++k) next_noise_[row * dimensions + k] = standard_normal(generator_);
  }
}

SacBatch<float> SacLearner::own_rows(const SacBatch<float>& all, Peers::Part part) const {
  const auto rows = [&](std::span<const float> of, std::size_t width) {
    return of.subspan(part.begin * width, part.size * width);
  };
  const std::size_t inputs = networks_.actor.inputs();
  return {.obs = rows(all.obs, inputs),
          .next_obs = rows(all.next_obs, inputs),
          .action = rows(all.action, networks_.dimensions()),
          .reward = rows(all.reward, 1),
          .discount = rows(all.discount, 1),
          .weight = all.weight.empty() ? all.weight : rows(all.weight, 1),
          .whole = all.rows()};
}

SacCriticScalars SacLearner::exchange(const SacCriticScalars& own, Peers::Part part) {
  if (peers_.alone()) return own;
  const std::size_t rows = errors_.size();
  exchanged_.assign(2 * rows + 3, 0);  // at other rows zeros, which change no bit
  const auto at = [&](std::size_t index) { return exchanged_.begin() + static_cast<std::ptrdiff_t>(index); };
  const std::span errors(errors_), log_prob(log_prob_);
  std::ranges::copy(errors.subspan(part.begin, part.size), at(part.begin));
  std::ranges::copy(log_prob.subspan(part.begin, part.size), at(rows + part.begin));
  std::ranges::copy(std::array{own.loss, own.q, own.target}, at(2 * rows));
  peers_.sum(exchanged_);
  std::copy_n(at(0), rows, errors_.begin());
  std::copy_n(at(rows), rows, log_prob_.begin());
  return {.loss = *at(2 * rows), .q = *at(2 * rows + 1), .target = *at(2 * rows + 2)};
}

UpdateReport SacLearner::step(const SampleView& samples) {
  const TransitionView all =
      transition_view(samples, options_.policy.observation_space, options_.policy.action_space);
  if (all.rows() == 0) troupe::InvalidArgumentError("a minibatch without rows").raise();
  if (all.rows() < peers_.size())
    troupe::InvalidArgumentError(fmt::format("SAC: a minibatch of {} rows for {} learners", all.rows(), peers_.size()))
        .raise();
  if (std::exchange(targets_wait_, false)) move(targets_);
  const Peers::Part part = peers_.part(all.rows());
  const SacBatch<float> batch = own_rows(read(all), part);
  const std::size_t dimensions = networks_.dimensions();
  draw_noise(all.rows());
  const auto own_noise = [&](const std::vector<double>& noise) {
    return std::span(noise).subspan(part.begin * dimensions, part.size * dimensions);
  };
  errors_.resize(all.rows()), log_prob_.resize(all.rows());
  const double alpha = this->alpha(), learning_rate = options_.learning_rate.at(updates_);

  gradient_.act(actor_.params, batch, own_noise(noise_), own_noise(next_noise_));
  std::ranges::copy(gradient_.log_prob(), log_prob_.begin() + static_cast<std::ptrdiff_t>(part.begin));
  const SacCriticScalars critic =
      exchange(gradient_.critic(critics_.params, targets_, batch, alpha, critics_.grads,
                                std::span(errors_).subspan(part.begin, part.size)),
               part);
  peers_.sum(critics_.grads);
  const double d_log_alpha = sac_temperature_gradient(log_prob_, target_entropy_);
  const double alpha_loss = options_.temperature.fixed ? 0 : log_alpha_ * d_log_alpha;
  check_finite("the critics'", critic.loss + d_log_alpha, critics_.grads);
  ++updates_;
  if (!options_.temperature.fixed) step_temperature(d_log_alpha, learning_rate);
  step_network(critics_, learning_rate);

  double actor_loss = gradient_.actor(actor_.params, critics_.params, batch, alpha, actor_.grads);
  peers_.sum(actor_.grads);
  peers_.sum(std::span(&actor_loss, 1));
  check_finite("the actor's", actor_loss, actor_.grads);
  step_network(actor_, learning_rate);
  targets_wait_ = updates_ % options_.target_interval == 0;

  double entropy = 0;
  for (const double one : log_prob_) entropy -= one / static_cast<double>(all.rows());
  UpdateReport report{.metrics = {{"critic_loss", critic.loss},
                                  {"actor_loss", actor_loss},
                                  {"alpha", alpha},
                                  {"alpha_loss", alpha_loss},
                                  {"entropy", entropy},
                                  {"q", critic.q},
                                  {"target", critic.target},
                                  {"learning_rate", learning_rate}},
                      .td_errors = std::vector<float>(all.rows())};
  std::ranges::transform(errors_, report.td_errors.begin(), [](double e) { return static_cast<float>(e); });
  return report;
}

void SacLearner::check_finite(const char* whose, double loss, std::span<const float> grads) const {
  const double norm = troupe::kernels::global_norm<float>(grads);
  if (std::isfinite(loss) && std::isfinite(norm)) return;
  troupe::InvalidArgumentError(  // LRN-3
      fmt::format("SAC: {} loss is {} and its gradient's norm {}, after {} updates", whose, loss, norm, updates_))
      .raise();
}

void SacLearner::step_temperature(double gradient, double learning_rate) {
  const std::span<const double> grads(&gradient, 1);
  troupe::kernels::adam_step<double>(
      options_.isa, {std::span(&log_alpha_, 1), grads, std::span(&alpha_first_, 1), std::span(&alpha_second_, 1)},
      updates_, 1.0, {.learning_rate = learning_rate, .epsilon = options_.adam_epsilon});
}

void SacLearner::step_network(Learned& learned, double learning_rate) const {
  troupe::kernels::adam_step<float>(options_.isa, {learned.params, learned.grads, learned.first, learned.second},
                                    updates_, 1.0,
                                    {.learning_rate = learning_rate, .epsilon = options_.adam_epsilon});
}

StateDict SacLearner::save() const {
  StateDict out;
  out.put("actor/params", actor_.params);
  out.put("actor/adam/first_moment", actor_.first), out.put("actor/adam/second_moment", actor_.second);
  std::vector<float> targets = targets_;
  if (targets_wait_) move(targets);
  out.put("critics/params", critics_.params), out.put("critics/target", std::move(targets));
  out.put("critics/adam/first_moment", critics_.first), out.put("critics/adam/second_moment", critics_.second);
  out.put("temperature", std::vector<double>{log_alpha_, alpha_first_, alpha_second_});
  out.put_one("updates", updates_);
  const Generator::Saved saved = before_noise_ ? *before_noise_ : generator_.save();
  out.put("generator", std::vector<std::uint64_t>(saved.begin(), saved.end()));
  return out;
}

void SacLearner::restore(const StateDict& state) {
  const auto parts = [&](const std::string& name, const Learned& now) {
    Learned out(0);
    out.params = state.get<float>(name + "/params", now.params.size());
    out.first = state.get<float>(name + "/adam/first_moment", now.params.size());
    out.second = state.get<float>(name + "/adam/second_moment", now.params.size());
    out.grads.resize(now.params.size());
    return out;
  };
  Learned actor = parts("actor", actor_), critics = parts("critics", critics_);
  const auto& targets = state.get<float>("critics/target", targets_.size());
  const auto& temperature = state.get<double>("temperature", 3);
  const auto updates = state.get_one<std::int64_t>("updates");
  Generator::Saved saved{};
  std::ranges::copy(state.get<std::uint64_t>("generator", saved.size()), saved.begin());
  actor_ = std::move(actor), critics_ = std::move(critics), targets_ = targets;
  log_alpha_ = temperature[0], alpha_first_ = temperature[1], alpha_second_ = temperature[2];
  updates_ = updates;
  generator_.restore(saved);
  targets_wait_ = false, before_noise_.reset();
}

}  // namespace rl
