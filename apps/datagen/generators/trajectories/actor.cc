#include "apps/datagen/generators/trajectories/actor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace datagen {
namespace {

constexpr float kUnsaid = std::numeric_limits<float>::quiet_NaN();

/// Of an action as likely as another.
double log_prob_of_any(const rl::Space& space) {
  if (const auto* choice = std::get_if<rl::Discrete>(&space)) return -std::log(static_cast<double>(choice->n));
  double sum = 0;
  if (const auto* choices = std::get_if<rl::MultiDiscrete>(&space)) {
    for (const std::int64_t n : choices->nvec) sum -= std::log(static_cast<double>(n));
    return sum;
  }
  const auto& box = std::get<rl::Box>(space);
  for (std::size_t i = 0; i < rl::elements_of(space); ++i) sum -= std::log(box.high_of(i) - box.low_of(i));
  return sum;
}

}  // namespace

troupe::Status check_behaviour(const rl::AnyPolicySpec& spec, Behaviour behaviour) {
  if (behaviour == Behaviour::kSample && std::holds_alternative<rl::QNetworkSpec>(spec))
    return troupe::InvalidArgumentError(
        "mixture: a policy of DQN has no probabilities to draw actions by: use epsilon");
  return {};
}

PolicyActor::PolicyActor(const rl::Policy& policy, troupe::kernels::Isa isa)
    : policy_(policy),
      player_(rl::make_player(policy.spec, isa)),
      encoder_(rl::ObservationEncoder::make(rl::observation_space_of(policy.spec)).value()) {
  if (const auto* spec = std::get_if<rl::PolicySpec>(&policy.spec)) {
    network_.emplace(spec->networks, isa);
    distribution_ = rl::make_distribution<float>(spec->action_space).value();
  } else if (const auto* gaussian = std::get_if<rl::SquashedGaussianSpec>(&policy.spec)) {
    squashed_.emplace(*gaussian, isa);
  }
}

void PolicyActor::sample(rl::ConstRows obs, std::span<rl::Generator> draws, rl::Rows actions,
                         std::span<float> log_prob) {
  if (network_) {
    network_->evaluate(policy_.params, encoder_.encode(obs, encoded_), action_params_, values_);
    const std::size_t width = distribution_->parameters();
    for (std::size_t i = 0; i < draws.size(); ++i)  // PAC-1
      distribution_->sample({std::span<const float>(action_params_).subspan(i * width, width)}, draws[i],
                            actions.row(i), log_prob.subspan(i, 1));
    return;
  }
  if (!squashed_) check_behaviour(policy_.spec, Behaviour::kSample).value();  // raises
  normals_.resize(draws.size() * actions.width());
  for (std::size_t i = 0; i < normals_.size(); ++i) normals_[i] = rl::standard_normal(draws[i / actions.width()]);
  squashed_->sample(policy_.params, obs, draws.front(), actions, {.normals = normals_});
  std::ranges::fill(log_prob, kUnsaid);
}

void any_actions(const rl::Space& action_space, std::span<rl::Generator> draws, rl::Rows actions,
                 std::span<float> log_prob) {
  for (std::size_t i = 0; i < draws.size(); ++i) rl::random_actions(action_space, draws[i], actions.row(i));
  std::ranges::fill(log_prob, static_cast<float>(log_prob_of_any(action_space)));
}

void now_and_then_any(const rl::Space& action_space, double epsilon, std::span<rl::Generator> draws, rl::Rows actions,
                      std::span<float> log_prob) {
  const auto* choice = std::get_if<rl::Discrete>(&action_space);
  for (std::size_t i = 0; i < draws.size(); ++i) {
    log_prob[i] = kUnsaid;
    const std::int64_t best = choice != nullptr ? actions.as<std::int64_t>()[i] : 0;
    if (draws[i].random() < epsilon) rl::random_actions(action_space, draws[i], actions.row(i));
    if (choice == nullptr) continue;
    const bool is_best = actions.as<std::int64_t>()[i] == best;
    log_prob[i] = static_cast<float>(std::log((is_best ? 1 - epsilon : 0) + epsilon / static_cast<double>(choice->n)));
  }
}

}  // namespace datagen
