#include "apps/rl/envs/acrobot.h"

#include <algorithm>
#include <cmath>

#include "apps/rl/envs/classic/constants.h"

namespace rl {
namespace {

constexpr auto kVelocityBound1 = static_cast<float>(AcrobotConstants::kMaxVelocity1);
constexpr auto kVelocityBound2 = static_cast<float>(AcrobotConstants::kMaxVelocity2);

using State = std::array<double, 4>;

// Names follow Sutton's book, from which Gymnasium takes them.
State derivatives(const State& s, double torque) {
  using C = AcrobotConstants;
  const double m1 = C::kLink, m2 = C::kLink, l1 = C::kLink, i1 = C::kLink, i2 = C::kLink;
  const double lc1 = C::kCenter, lc2 = C::kCenter, g = C::kGravity;
  const double theta1 = s[0], theta2 = s[1], dtheta1 = s[2], dtheta2 = s[3];
  const double d1 = m1 * (lc1 * lc1) + m2 * (l1 * l1 + lc2 * lc2 + 2 * l1 * lc2 * std::cos(theta2)) + i1 + i2;
  const double d2 = m2 * (lc2 * lc2 + l1 * lc2 * std::cos(theta2)) + i2;
  const double phi2 = m2 * lc2 * g * std::cos(theta1 + theta2 - C::kPi / 2.0);
  const double phi1 = -m2 * l1 * lc2 * (dtheta2 * dtheta2) * std::sin(theta2) -
                      2 * m2 * l1 * lc2 * dtheta2 * dtheta1 * std::sin(theta2) +
                      (m1 * lc1 + m2 * l1) * g * std::cos(theta1 - C::kPi / 2) + phi2;
  const double ddtheta2 = (torque + d2 / d1 * phi1 - m2 * l1 * lc2 * (dtheta1 * dtheta1) * std::sin(theta2) - phi2) /
                          (m2 * (lc2 * lc2) + i2 - d2 * d2 / d1);
  const double ddtheta1 = -(d2 * ddtheta2 + phi1) / d1;
  return {dtheta1, dtheta2, ddtheta1, ddtheta2};
}

State moved(const State& s, double by, const State& slope) {
  State out;
  for (std::size_t i = 0; i < s.size(); ++i) out[i] = s[i] + by * slope[i];
  return out;
}

State runge_kutta(const State& s, double torque) {
  using C = AcrobotConstants;
  const State k1 = derivatives(s, torque);
  const State k2 = derivatives(moved(s, C::kStep / 2.0, k1), torque);
  const State k3 = derivatives(moved(s, C::kStep / 2.0, k2), torque);
  const State k4 = derivatives(moved(s, C::kStep, k3), torque);
  State out;
  for (std::size_t i = 0; i < s.size(); ++i) out[i] = s[i] + C::kStep / 6.0 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
  return out;
}

double wrapped(double angle) {
  using C = AcrobotConstants;
  // A step turns it a few times at most. What was set from outside may be anything: there the loops had no end.
  if (std::abs(angle) > 1e3) angle = std::fmod(angle, 2 * C::kPi);
  while (angle > C::kPi) angle -= 2 * C::kPi;
  while (angle < -C::kPi) angle += 2 * C::kPi;
  return angle;
}

}  // namespace

const EnvSpec Acrobot::kSpec{.id = "Acrobot-v1",
                             .state_size = 4,
                             .obs_size = 6,
                             .num_actions = 3,
                             .max_episode_steps = 500,
                             .reward_threshold = -100.0,
                             .obs_low = {-1, -1, -1, -1, -kVelocityBound1, -kVelocityBound2},
                             .obs_high = {1, 1, 1, 1, kVelocityBound1, kVelocityBound2}};

void Acrobot::reset(Generator& generator) {
  for (double& v : state_) v = static_cast<double>(static_cast<float>(generator.uniform(-0.1, 0.1)));
  single_precision_ = true;
}

StepOutcome Acrobot::step(Action action) {
  using C = AcrobotConstants;
  const State next = runge_kutta(state_, action.value - 1.0);
  state_ = {wrapped(next[0]), wrapped(next[1]), std::clamp(next[2], -C::kMaxVelocity1, C::kMaxVelocity1),
            std::clamp(next[3], -C::kMaxVelocity2, C::kMaxVelocity2)};
  single_precision_ = false;
  const bool reached = -std::cos(state_[0]) - std::cos(state_[1] + state_[0]) > 1.0;
  return {reached ? 0.0 : -1.0, reached};
}

void Acrobot::observe(std::span<float> obs) const {
  if (single_precision_) {
    const auto theta1 = static_cast<float>(state_[0]);
    const auto theta2 = static_cast<float>(state_[1]);
    obs[0] = std::cos(theta1), obs[1] = std::sin(theta1), obs[2] = std::cos(theta2), obs[3] = std::sin(theta2);
  } else {
    obs[0] = static_cast<float>(std::cos(state_[0])), obs[1] = static_cast<float>(std::sin(state_[0]));
    obs[2] = static_cast<float>(std::cos(state_[1])), obs[3] = static_cast<float>(std::sin(state_[1]));
  }
  obs[4] = static_cast<float>(state_[2]), obs[5] = static_cast<float>(state_[3]);
}

void Acrobot::set_state(std::span<const double> state, StateOrigin origin) {
  std::copy_n(state.begin(), state_.size(), state_.begin());
  single_precision_ = origin == StateOrigin::kAfterReset;
}

}  // namespace rl
