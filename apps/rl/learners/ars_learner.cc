#include "apps/rl/learners/ars_learner.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/rl/algorithms/ars.h"
#include "apps/rl/samples/perturbations.h"

namespace rl {
namespace {

constexpr double kLeastDeviation = 1e-6;  // ars.h

std::vector<float> first_ars_parameters(const PolicySpec& policy, std::uint64_t seed) {
  check_policy(policy).value();
  Generator generator(seed);
  std::vector<float> out = initial_parameters(policy.networks, generator);
  if (!policy.networks.trunk && policy.networks.policy.hidden.empty())
    std::ranges::fill(std::span(out).first(searched_parameters(policy)), 0.0f);
  return out;
}

/// Each direction once.
void check_pairs(std::span<const ArsPair> pairs, std::size_t directions, std::int64_t update) {
  std::vector<std::uint8_t> seen(directions);
  for (const ArsPair& pair : pairs) {
    if (pair.direction >= directions || seen[pair.direction]++ != 0)
      troupe::InvalidArgumentError(fmt::format("update {} has direction {} twice, or too many", update,
                                               pair.direction))
          .raise();
    if (!std::isfinite(pair.plus) || !std::isfinite(pair.minus))
      troupe::InvalidArgumentError(fmt::format("the returns of direction {} in update {} are {} and {}",
                                               pair.direction, update, pair.plus, pair.minus))
          .raise();
  }
  if (pairs.size() != directions)
    troupe::InvalidArgumentError(fmt::format("update {} has {} of {} directions", update, pairs.size(), directions))
        .raise();
}

}  // namespace

std::size_t searched_parameters(const PolicySpec& policy) {
  const ActorCriticSpec& networks = policy.networks;
  return (networks.trunk ? networks.trunk->parameter_count() : 0) + networks.policy.parameter_count();
}

ArsLearner::ArsLearner(const ArsOptions& options)
    : options_(options), params_(first_ars_parameters(options.policy, options.seed)) {}

UpdateReport ArsLearner::update(std::span<const SampleView> batches) {
  const OwnedSamples joined = concatenate(batches);
  const std::vector<ArsPair> pairs = read_pairs(joined.view());
  check_pairs(pairs, options_.directions, updates_);
  const std::vector<ArsPair> best = best_pairs(pairs, options_.top);
  const double deviation = deviation_of_returns(best);
  const double step = options_.learning_rate / (static_cast<double>(best.size()) * deviation + kLeastDeviation);
  std::vector<float> direction(searched_parameters(options_.policy));
  std::vector<double> change(direction.size());
  for (const ArsPair& pair : best) {
    draw_direction({.job = options_.seed, .update = updates_, .number = pair.direction}, direction);
    for (std::size_t i = 0; i < change.size(); ++i)
      change[i] += step * (pair.plus - pair.minus) * static_cast<double>(direction[i]);
  }
  double squares = 0;
  for (std::size_t i = 0; i < change.size(); ++i) {
    params_[i] = static_cast<float>(static_cast<double>(params_[i]) + change[i]);
    squares += change[i] * change[i];
  }
  ++updates_;
  return {.metrics = {{"return_deviation", deviation},
                      {"best_return", std::max(best.front().plus, best.front().minus)},
                      {"step_norm", std::sqrt(squares)}},
          .td_errors = {}};
}

StateDict ArsLearner::save() const {
  StateDict out;
  out.put("params", params_);
  out.put_one("updates", updates_);
  return out;
}

void ArsLearner::restore(const StateDict& state) {
  const auto& params = state.get<float>("params", params_.size());
  updates_ = state.get_one<std::int64_t>("updates");
  params_ = params;
}

}  // namespace rl
