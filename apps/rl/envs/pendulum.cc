#include "apps/rl/envs/pendulum.h"

#include <algorithm>
#include <cmath>

#include "apps/rl/envs/classic/constants.h"

namespace rl {
namespace {

// Into [-pi, pi); Python's modulo is never negative.
double normalized(double angle) {
  using C = PendulumConstants;
  double rest = std::fmod(angle + C::kHalfTurn, 2 * C::kHalfTurn);
  if (rest < 0) rest += 2 * C::kHalfTurn;
  return rest - C::kHalfTurn;
}

struct TorqueTerms {
  double cost;   // 0.001 u^2
  double drive;  // 3 u
};

TorqueTerms torque_terms(Action action) {
  using C = PendulumConstants;
  if (action.type == ActionType::kFloat32) {
    const float u = std::clamp(static_cast<float>(action.value), -2.0f, 2.0f);
    return {static_cast<double>(0.001f * (u * u)), static_cast<double>(3.0f * u)};
  }
  const double u = std::clamp(action.value, -C::kMaxTorque, C::kMaxTorque);
  return {0.001 * (u * u), 3.0 * u};
}

}  // namespace

const EnvSpec Pendulum::kSpec{.id = "Pendulum-v1",
                              .state_size = 2,
                              .obs_size = 3,
                              .num_actions = 0,
                              .max_episode_steps = 200,
                              .reward_threshold = std::nullopt,
                              .obs_low = {-1, -1, -8},
                              .obs_high = {1, 1, 8},
                              .action_limit = 2};

void Pendulum::reset(Generator& generator) {
  using C = PendulumConstants;
  const double theta = generator.uniform(-C::kHalfTurn, C::kHalfTurn);
  state_ = {theta, generator.uniform(-1.0, 1.0)};
}

StepOutcome Pendulum::step(Action action) {
  using C = PendulumConstants;
  const auto [theta, theta_dot] = state_;
  const TorqueTerms terms = torque_terms(action);
  const double angle = normalized(theta);
  const double cost = angle * angle + 0.1 * (theta_dot * theta_dot) + terms.cost;
  const double pulled = theta_dot + (3 * C::kPull / 2 * std::sin(theta) + terms.drive) * C::kTimeStep;
  const double speed = std::clamp(pulled, -C::kMaxSpeed, C::kMaxSpeed);
  state_ = {theta + speed * C::kTimeStep, speed};
  return {-cost, false};
}

void Pendulum::observe(std::span<float> obs) const {
  obs[0] = static_cast<float>(std::cos(state_[0]));
  obs[1] = static_cast<float>(std::sin(state_[0]));
  obs[2] = static_cast<float>(state_[1]);
}

void Pendulum::set_state(std::span<const double> state, StateOrigin) {
  std::copy_n(state.begin(), state_.size(), state_.begin());
}

}  // namespace rl
