// CartPole's constants, and the arrays that a vector version of its step works on.
//
// Kept free of everything else: files compiled for one instruction set include it, and must not instantiate shared
// code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numbers>

namespace rl {

struct CartPoleConstants {
  static constexpr double kGravity = 9.8;
  static constexpr double kMassPole = 0.1;
  static constexpr double kTotalMass = 0.1 + 1.0;
  static constexpr double kLength = 0.5;  // half of the pole
  static constexpr double kPoleMassLength = kMassPole * kLength;
  static constexpr double kForce = 10.0;
  static constexpr double kTau = 0.02;
  static constexpr double kXLimit = 2.4;
  static constexpr double kThetaLimit = 12 * 2 * std::numbers::pi / 360;
  static constexpr double kResetBound = 0.05;
  static constexpr int kMaxEpisodeSteps = 500;
};

namespace detail {

/// What one version of the step works on; the number of lanes is 8 * groups.
struct CartPoleLanes {
  std::size_t groups;
  double *x, *x_dot, *theta, *theta_dot;
  float* obs[4];
  std::int32_t* steps;
  std::int32_t max_steps;
  const std::uint8_t* actions;
  std::uint8_t *terminated, *truncated, *ended_masks;
};
using CartPoleStep = void (*)(const CartPoleLanes&);
void cartpole_step_reference(const CartPoleLanes& lanes);
CartPoleStep cartpole_step_avx2();  // null where it was not built
CartPoleStep cartpole_step_avx512();

}  // namespace detail
}  // namespace rl
