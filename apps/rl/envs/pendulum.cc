#include "apps/rl/envs/pendulum.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rl {
namespace {

constexpr double kHalfTurn = std::numbers::pi;
constexpr double kTimeStep = 0.05;
constexpr double kPull = 10.0;
constexpr double kMaxSpeed = 8.0;
constexpr double kMaxTorque = 2.0;

// Into [-pi, pi); Python's modulo is never negative.
double normalized(double angle) {
  double rest = std::fmod(angle + kHalfTurn, 2 * kHalfTurn);
  if (rest < 0) rest += 2 * kHalfTurn;
  return rest - kHalfTurn;
}

struct TorqueTerms {
  double cost;   // 0.001 u^2
  double drive;  // 3 u
};

TorqueTerms torque_terms(Action action) {
  if (action.type == ActionType::kFloat32) {
    const float u = std::clamp(static_cast<float>(action.value), -2.0f, 2.0f);
    return {static_cast<double>(0.001f * (u * u)), static_cast<double>(3.0f * u)};
  }
  const double u = std::clamp(action.value, -kMaxTorque, kMaxTorque);
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
  const double theta = generator.uniform(-kHalfTurn, kHalfTurn);
  state_ = {theta, generator.uniform(-1.0, 1.0)};
}

StepOutcome Pendulum::step(Action action) {
  const auto [theta, theta_dot] = state_;
  const TorqueTerms terms = torque_terms(action);
  const double angle = normalized(theta);
  const double cost = angle * angle + 0.1 * (theta_dot * theta_dot) + terms.cost;
  const double pulled = theta_dot + (3 * kPull / 2 * std::sin(theta) + terms.drive) * kTimeStep;
  const double speed = std::clamp(pulled, -kMaxSpeed, kMaxSpeed);
  state_ = {theta + speed * kTimeStep, speed};
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
