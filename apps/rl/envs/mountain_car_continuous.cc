#include "apps/rl/envs/mountain_car_continuous.h"

#include <algorithm>
#include <cmath>

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
  const Kind state_kind = single_precision_ ? Kind::kFloat32 : Kind::kFloat64;
  Scalar position{state_[0], state_kind};
  Scalar velocity{state_[1], state_kind};
  const Scalar force =
      clipped({action.value, action.type == ActionType::kFloat32 ? Kind::kFloat32 : Kind::kFloat64}, -1.0, 1.0);

  const double slope = std::cos((weak(3) * position).value);
  velocity = clipped(velocity + (force * weak(0.0015) + weak(-0.0025 * slope)), -0.07, 0.07);
  position = clipped(position + velocity, -1.2, 0.6);
  const bool at_wall = !(position < weak(-1.2)) && !(weak(-1.2) < position);
  if (at_wall && velocity < weak(0)) velocity = weak(0);

  const bool reached = !(position < weak(0.45)) && !(velocity < weak(0));
  state_ = {rounded(position.value), rounded(velocity.value)};
  single_precision_ = true;
  return {(reached ? 100.0 : 0.0) - action.value * action.value * 0.1, reached};
}

void MountainCarContinuous::observe(std::span<float> obs) const {
  obs[0] = static_cast<float>(state_[0]), obs[1] = static_cast<float>(state_[1]);
}

void MountainCarContinuous::set_state(std::span<const double> state, StateOrigin origin) {
  std::copy_n(state.begin(), state_.size(), state_.begin());
  single_precision_ = origin == StateOrigin::kAfterStep;
}

}  // namespace rl
