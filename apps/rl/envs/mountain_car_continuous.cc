#include "apps/rl/envs/mountain_car_continuous.h"

#include <algorithm>
#include <cmath>

#include "apps/rl/envs/classic/constants.h"

namespace rl {
namespace {

// A NumPy scalar: a double, or a float32 kept in a double. kWeak is a Python float: beside a float32 it becomes one.
enum class Kind { kWeak, kFloat32, kFloat64 };

double rounded(double v) { return static_cast<double>(static_cast<float>(v)); }

struct Scalar {
  double value;
  Kind kind;

  friend Scalar operator+(Scalar a, Scalar b) {
    if (a.kind == Kind::kFloat64 || b.kind == Kind::kFloat64) return {a.value + b.value, Kind::kFloat64};
    if (a.kind == Kind::kWeak && b.kind == Kind::kWeak) return {a.value + b.value, Kind::kWeak};
    return {rounded(rounded(a.value) + rounded(b.value)), Kind::kFloat32};
  }
  // A product of two float32 is exact in double, so one rounding is the float32 product.
  friend Scalar operator*(Scalar a, Scalar b) {
    if (a.kind == Kind::kFloat64 || b.kind == Kind::kFloat64) return {a.value * b.value, Kind::kFloat64};
    if (a.kind == Kind::kWeak && b.kind == Kind::kWeak) return {a.value * b.value, Kind::kWeak};
    return {rounded(rounded(a.value) * rounded(b.value)), Kind::kFloat32};
  }
  friend bool operator<(Scalar a, Scalar b) {
    const bool single =
        (a.kind == Kind::kFloat32 || b.kind == Kind::kFloat32) && a.kind != Kind::kFloat64 && b.kind != Kind::kFloat64;
    return single ? rounded(a.value) < rounded(b.value) : a.value < b.value;
  }
};

constexpr Scalar weak(double v) { return {v, Kind::kWeak}; }

Scalar clipped(Scalar v, double low, double high) {
  if (weak(high) < v) return weak(high);
  if (v < weak(low)) return weak(low);
  return v;
}

}  // namespace

const EnvSpec MountainCarContinuous::kSpec{.id = "MountainCarContinuous-v0",
                                           .state_size = 2,
                                           .obs_size = 2,
                                           .num_actions = 0,
                                           .max_episode_steps = 999,
                                           .reward_threshold = 90.0,
                                           .obs_low = {-1.2f, -0.07f},
                                           .obs_high = {0.6f, 0.07f},
                                           .action_limit = 1};

void MountainCarContinuous::reset(Generator& generator) {
  state_ = {generator.uniform(-0.6, -0.4), 0.0};
  single_precision_ = false;
}

StepOutcome MountainCarContinuous::step(Action action) {
  using C = MountainCarConstants;
  const Kind state_kind = single_precision_ ? Kind::kFloat32 : Kind::kFloat64;
  Scalar position{state_[0], state_kind};
  Scalar velocity{state_[1], state_kind};
  const Scalar force =
      clipped({action.value, action.type == ActionType::kFloat32 ? Kind::kFloat32 : Kind::kFloat64}, -1.0, 1.0);

  const double slope = std::cos((weak(3) * position).value);
  const Scalar push = force * weak(C::kContinuousForce) + weak(-C::kGravity * slope);
  velocity = clipped(velocity + push, -C::kSpeedMax, C::kSpeedMax);
  position = clipped(position + velocity, C::kPositionMin, C::kPositionMax);
  const bool at_wall = !(position < weak(C::kPositionMin)) && !(weak(C::kPositionMin) < position);
  if (at_wall && velocity < weak(0)) velocity = weak(0);

  const bool reached = !(position < weak(C::kContinuousGoal)) && !(velocity < weak(0));
  state_ = {rounded(position.value), rounded(velocity.value)};
  single_precision_ = true;
  return {(reached ? C::kContinuousReward : 0.0) - action.value * action.value * C::kContinuousCost, reached};
}

void MountainCarContinuous::observe(std::span<float> obs) const {
  obs[0] = static_cast<float>(state_[0]), obs[1] = static_cast<float>(state_[1]);
}

void MountainCarContinuous::set_state(std::span<const double> state, StateOrigin origin) {
  std::copy_n(state.begin(), state_.size(), state_.begin());
  single_precision_ = origin == StateOrigin::kAfterStep;
}

}  // namespace rl
