// The classic five as Gymnasium draws them: same proportions, same colors. From the observation alone. Pure.
//
//   CartPole-v1                          all: position and angle are observed
//   Acrobot-v1                           all: cosine and sine of both angles
//   MountainCar-v0, ...Continuous-v0     all: the position; the hill and the flag never move
//   Pendulum-v1                          all but the arrow of the torque that was applied, which no observation has:
//                                        the caller gives it, or there is none
//
// Observations are those of the environment itself, not normalized ones.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "apps/rl/record/frame.h"

namespace rl {

[[nodiscard]] Frame draw_cartpole(std::span<const float> observation);
[[nodiscard]] Frame draw_acrobot(std::span<const float> observation);
/// `goal`: where the flag is.
[[nodiscard]] Frame draw_mountain_car(std::span<const float> observation, double goal);
/// `torque`: between -2 and 2, positive counter-clockwise.
[[nodiscard]] Frame draw_pendulum(std::span<const float> observation, std::optional<double> torque);

}  // namespace rl
