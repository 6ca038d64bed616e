#include "apps/rl/envs/wrappers/simple.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace rl {
namespace {

/// The bounds of a float32 action; an error that says what the wrapper needs.
troupe::Result<Box> float_actions(const EnvSpecs& specs, const char* wrapper) {
  const Box* box = std::get_if<Box>(&specs.action_space);
  if (box && box->dtype == DType::kFloat32) return *box;
  return troupe::InvalidArgumentError(
      fmt::format("{} needs actions of float32, and {} takes {}", wrapper, specs.id, to_string(specs.action_space)));
}

}  // namespace

troupe::Result<std::unique_ptr<ClipReward>> ClipReward::make(std::unique_ptr<BatchEnv> inner, double low,
                                                             double high) {
  if (!(low <= high))
    return troupe::InvalidArgumentError(fmt::format("rewards cannot be clipped to [{}, {}]", low, high));
  return std::unique_ptr<ClipReward>(new ClipReward(std::move(inner), low, high));
}

void ClipReward::step(ConstRows actions, const StepOut& out) {
  inner().step(actions, out);
  for (double& reward : out.reward) reward = std::clamp(reward, low_, high_);
}

troupe::Result<std::unique_ptr<ClipAction>> ClipAction::make(std::unique_ptr<BatchEnv> inner) {
  if (auto box = float_actions(inner->specs(), "ClipAction"); !box.ok()) return box.error_ptr();
  return std::unique_ptr<ClipAction>(new ClipAction(std::move(inner)));
}

ClipAction::ClipAction(std::unique_ptr<BatchEnv> inner)
    : EnvWrapper(std::move(inner)),
      bounds_(std::get<Box>(specs().action_space)),
      actions_(specs().action_space, size()) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Box any = bounds_;
  any.low = {-kInfinity};
  any.high = {kInfinity};
  changed_specs().action_space = std::move(any);
}

void ClipAction::step(ConstRows actions, const StepOut& out) {
  const std::span<const float> given = actions.as<float>();
  const std::span<float> clipped = actions_.as<float>();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::size_t k = i % actions.width();
    clipped[i] = static_cast<float>(std::clamp<double>(given[i], bounds_.low_of(k), bounds_.high_of(k)));
  }
  inner().step(actions_.view(), out);
}

troupe::Result<std::unique_ptr<RescaleAction>> RescaleAction::make(std::unique_ptr<BatchEnv> inner) {
  const auto box = float_actions(inner->specs(), "RescaleAction");
  if (!box.ok()) return box.error_ptr();
  for (std::size_t k = 0; k < elements_of(inner->specs().action_space); ++k)
    if (!std::isfinite(box->low_of(k)) || !std::isfinite(box->high_of(k)))
      return troupe::InvalidArgumentError(
          fmt::format("RescaleAction needs finite bounds, and number {} of {}'s actions has none", k,
                      inner->specs().id));
  return std::unique_ptr<RescaleAction>(new RescaleAction(std::move(inner)));
}

RescaleAction::RescaleAction(std::unique_ptr<BatchEnv> inner)
    : EnvWrapper(std::move(inner)),
      bounds_(std::get<Box>(specs().action_space)),
      actions_(specs().action_space, size()) {
  Box unit = bounds_;
  unit.low = {-1};
  unit.high = {1};
  changed_specs().action_space = std::move(unit);
}

void RescaleAction::step(ConstRows actions, const StepOut& out) {
  const std::span<const float> given = actions.as<float>();
  const std::span<float> stretched = actions_.as<float>();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::size_t k = i % actions.width();
    const double low = bounds_.low_of(k), high = bounds_.high_of(k);
    stretched[i] = static_cast<float>(low + (high - low) * (static_cast<double>(given[i]) + 1) / 2);
  }
  inner().step(actions_.view(), out);
}

}  // namespace rl
