#include "apps/rl/envs/mountain_car.h"

#include <algorithm>
#include <cmath>

#include "apps/rl/envs/classic/constants.h"

namespace rl {

const EnvSpec MountainCar::kSpec{.id = "MountainCar-v0",
                                 .state_size = 2,
                                 .obs_size = 2,
                                 .num_actions = 3,
                                 .max_episode_steps = 200,
                                 .reward_threshold = -110.0,
                                 .obs_low = {-1.2f, -0.07f},
                                 .obs_high = {0.6f, 0.07f}};

void MountainCar::reset(Generator& generator) { state_ = {generator.uniform(-0.6, -0.4), 0.0}; }

StepOutcome MountainCar::step(Action action) {
  using C = MountainCarConstants;
  auto [position, velocity] = state_;
  velocity += (action.value - 1.0) * C::kForce + std::cos(3 * position) * -C::kGravity;
  velocity = std::clamp(velocity, -C::kSpeedMax, C::kSpeedMax);
  position = std::clamp(position + velocity, C::kPositionMin, C::kPositionMax);
  if (position == C::kPositionMin && velocity < 0) velocity = 0;
  state_ = {position, velocity};
  return {-1.0, position >= C::kGoal && velocity >= 0};
}

void MountainCar::observe(std::span<float> obs) const {
  obs[0] = static_cast<float>(state_[0]), obs[1] = static_cast<float>(state_[1]);
}

void MountainCar::set_state(std::span<const double> state, StateOrigin) {
  std::copy_n(state.begin(), state_.size(), state_.begin());
}

}  // namespace rl
