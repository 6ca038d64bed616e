// The numbers of the five classic-control tasks, as Gymnasium has them; the exact environments and the vector kernels
// share them.
//
// Kept free of everything else: files compiled for one instruction set include it, and must not instantiate shared
// code.
#pragma once

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

/// Both versions of the task: the same hill.
struct MountainCarConstants {
  static constexpr double kPositionMin = -1.2;
  static constexpr double kPositionMax = 0.6;
  static constexpr double kSpeedMax = 0.07;
  static constexpr double kForce = 0.001;
  static constexpr double kGravity = 0.0025;
  static constexpr double kGoal = 0.5;
  static constexpr double kContinuousForce = 0.0015;
  static constexpr double kContinuousGoal = 0.45;
  static constexpr double kContinuousReward = 100.0;
  static constexpr double kContinuousCost = 0.1;
};

struct PendulumConstants {
  static constexpr double kHalfTurn = std::numbers::pi;
  static constexpr double kTimeStep = 0.05;
  static constexpr double kPull = 10.0;
  static constexpr double kMaxSpeed = 8.0;
  static constexpr double kMaxTorque = 2.0;
};

struct AcrobotConstants {
  static constexpr double kPi = std::numbers::pi;
  static constexpr double kStep = 0.2;
  static constexpr double kLink = 1.0;    // length and mass of both links, moment of inertia
  static constexpr double kCenter = 0.5;  // distance to a link's center of mass
  static constexpr double kGravity = 9.8;
  static constexpr double kMaxVelocity1 = 4 * kPi;
  static constexpr double kMaxVelocity2 = 9 * kPi;
};

}  // namespace rl
