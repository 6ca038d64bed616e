#include "apps/rl/envs/cartpole.h"

#include <algorithm>
#include <limits>

namespace rl {
namespace {

// Gymnasium's: twice the limits at which an episode ends, so that its last observation is inside.
constexpr auto kXBound = static_cast<float>(2 * CartPoleConstants::kXLimit);
constexpr auto kThetaBound = static_cast<float>(2 * CartPoleConstants::kThetaLimit);
constexpr float kUnbounded = std::numeric_limits<float>::infinity();

}  // namespace

const EnvSpec CartPole::kSpec{.id = "CartPole-v1",
                              .state_size = 4,
                              .obs_size = 4,
                              .num_actions = 2,
                              .max_episode_steps = CartPoleConstants::kMaxEpisodeSteps,
                              .reward_threshold = 475.0,
                              .obs_low = {-kXBound, -kUnbounded, -kThetaBound, -kUnbounded},
                              .obs_high = {kXBound, kUnbounded, kThetaBound, kUnbounded}};

void CartPole::reset(Generator& generator) {
  for (double& v : state_) v = generator.uniform(-CartPoleConstants::kResetBound, CartPoleConstants::kResetBound);
}

StepOutcome CartPole::step(Action action) {
  const CartPoleState before{state_[0], state_[1], state_[2], state_[3]};
  const CartPoleState after =
      cartpole_advance(before, action.value != 0, std::sin(before.theta), std::cos(before.theta));
  state_ = {after.x, after.x_dot, after.theta, after.theta_dot};
  return {1.0, cartpole_failed(after)};
}

void CartPole::observe(std::span<float> obs) const {
  for (std::size_t i = 0; i < state_.size(); ++i) obs[i] = static_cast<float>(state_[i]);
}

void CartPole::set_state(std::span<const double> state, StateOrigin) {
  std::copy_n(state.begin(), state_.size(), state_.begin());
}

}  // namespace rl
