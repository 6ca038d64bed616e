// CartPole-v1: the constants and one exact step. See env.h for the rules.
//
// CPL-1  Explicit Euler: positions move with the old velocities. Reward 1 on every step, the failing one too.
// CPL-2  The order of operations is Gymnasium's, so results are bit-equal where sin and cos are (glibc's agree with
//        NumPy's).
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "apps/rl/envs/classic/constants.h"
#include "apps/rl/envs/env.h"

namespace rl {

struct CartPoleState {
  double x, x_dot, theta, theta_dot;
};

/// The exact step, given sin and cos of s.theta.
inline CartPoleState cartpole_advance(const CartPoleState& s, bool push_right, double sin_theta, double cos_theta) {
  using C = CartPoleConstants;
  const double force = push_right ? C::kForce : -C::kForce;
  const double temp = (force + C::kPoleMassLength * (s.theta_dot * s.theta_dot) * sin_theta) / C::kTotalMass;
  const double theta_acc = (C::kGravity * sin_theta - cos_theta * temp) /
                           (C::kLength * (4.0 / 3.0 - C::kMassPole * (cos_theta * cos_theta) / C::kTotalMass));
  const double x_acc = temp - C::kPoleMassLength * theta_acc * cos_theta / C::kTotalMass;
  return {s.x + C::kTau * s.x_dot, s.x_dot + C::kTau * x_acc, s.theta + C::kTau * s.theta_dot,
          s.theta_dot + C::kTau * theta_acc};
}

inline bool cartpole_failed(const CartPoleState& s) {
  using C = CartPoleConstants;
  return s.x < -C::kXLimit || s.x > C::kXLimit || s.theta < -C::kThetaLimit || s.theta > C::kThetaLimit;
}

class CartPole final : public Env {
 public:
  static const EnvSpec kSpec;
  [[nodiscard]] const EnvSpec& spec() const override { return kSpec; }
  void reset(Generator& generator) override;
  StepOutcome step(Action action) override;
  void observe(std::span<float> obs) const override;
  void set_state(std::span<const double> state, StateOrigin origin) override;
  [[nodiscard]] std::span<const double> state() const override { return state_; }

 private:
  std::array<double, 4> state_{};
};

}  // namespace rl
