#include "apps/rl/envs/cartpole.h"

#include <algorithm>

namespace rl {

const EnvSpec CartPole::kSpec{"CartPole-v1", 4, 4, 2, CartPoleConstants::kMaxEpisodeSteps, 475.0};

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
