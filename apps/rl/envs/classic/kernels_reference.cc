// The exact kernels: the environments of env.h, one after the other, on the arrays of lanes.h.
#include <algorithm>
#include <cmath>
#include <span>

#include "apps/rl/envs/acrobot.h"
#include "apps/rl/envs/cartpole.h"
#include "apps/rl/envs/classic/lanes.h"
#include "apps/rl/envs/mountain_car.h"
#include "apps/rl/envs/mountain_car_continuous.h"
#include "apps/rl/envs/pendulum.h"

namespace rl::detail {
namespace {

template <class E, class Arrays>
void load_lane(const Arrays& l, std::size_t i, StateOrigin origin, E& env) {
  double state[kClassicStateMax];
  const std::size_t fields = env.state().size();
  for (std::size_t k = 0; k < fields; ++k) state[k] = l.state[k][i];
  env.set_state({state, fields}, origin);
}

template <class E>
bool step_lane(const ClassicLanes& l, std::size_t i, E& env) {
  load_lane(l, i, l.steps[i] == 0 ? StateOrigin::kAfterReset : StateOrigin::kAfterStep, env);
  const Action action = l.forces != nullptr
                            ? Action{.value = static_cast<double>(l.forces[i]), .type = ActionType::kFloat32}
                            : Action{.value = static_cast<double>(l.choices[i]), .type = ActionType::kDiscrete};
  const StepOutcome outcome = env.step(action);
  const std::span<const double> after = env.state();
  for (std::size_t k = 0; k < after.size(); ++k) l.state[k][i] = after[k];
  env.observe({l.obs + E::kSpec.obs_size * i, E::kSpec.obs_size});
  l.reward[i] = outcome.reward;
  l.episode_return[i] += outcome.reward;
  l.terminated[i] = outcome.terminated;
  l.truncated[i] = ++l.steps[i] >= l.max_steps;
  return (l.terminated[i] | l.truncated[i]) != 0;
}

// CartPole is what training steps most: without the detour through the environment's own memory.
template <>
bool step_lane<CartPole>(const ClassicLanes& l, std::size_t i, CartPole&) {
  const CartPoleState before{l.state[0][i], l.state[1][i], l.state[2][i], l.state[3][i]};
  const CartPoleState after =
      cartpole_advance(before, l.choices[i] != 0, std::sin(before.theta), std::cos(before.theta));
  l.state[0][i] = after.x, l.state[1][i] = after.x_dot;
  l.state[2][i] = after.theta, l.state[3][i] = after.theta_dot;
  float* row = l.obs + 4 * i;
  for (std::size_t k = 0; k < 4; ++k) row[k] = static_cast<float>(l.state[k][i]);
  l.reward[i] = 1;
  l.episode_return[i] += 1;
  l.terminated[i] = cartpole_failed(after);
  l.truncated[i] = ++l.steps[i] >= l.max_steps;
  return (l.terminated[i] | l.truncated[i]) != 0;
}

template <class E>
void step_lanes(const ClassicLanes& l) {
  E env;
  for (std::size_t group = 0; group < l.groups; ++group) {
    unsigned ended = 0;
    for (std::size_t k = 0; k < kClassicGroup; ++k)
      ended |= static_cast<unsigned>(step_lane(l, kClassicGroup * group + k, env)) << k;
    l.ended_masks[group] = static_cast<std::uint8_t>(ended);
  }
}

template <class E>
void observe_lanes(const ClassicView& l) {
  E env;
  for (std::size_t i = 0; i < kClassicGroup * l.groups; ++i) {
    load_lane(l, i, StateOrigin::kAfterStep, env);
    env.observe({l.obs + E::kSpec.obs_size * i, E::kSpec.obs_size});
  }
}

bool all_below_reference(const std::int64_t* numbers, std::size_t count, std::int64_t bound) {
  return std::all_of(numbers, numbers + count, [bound](std::int64_t n) { return n >= 0 && n < bound; });
}

void sin_cos_reference(const double* x, double* sin, double* cos) {
  for (std::size_t i = 0; i < kClassicGroup; ++i) sin[i] = std::sin(x[i]), cos[i] = std::cos(x[i]);
}

constexpr ClassicKernels kReferenceKernels{
    .cartpole = {&step_lanes<CartPole>, &observe_lanes<CartPole>},
    .mountain_car = {&step_lanes<MountainCar>, &observe_lanes<MountainCar>},
    .mountain_car_continuous = {&step_lanes<MountainCarContinuous>, &observe_lanes<MountainCarContinuous>},
    .pendulum = {&step_lanes<Pendulum>, &observe_lanes<Pendulum>},
    .acrobot = {&step_lanes<Acrobot>, &observe_lanes<Acrobot>},
    .all_below = &all_below_reference,
    .sin_cos = &sin_cos_reference};

}  // namespace

const ClassicKernels& classic_kernels_reference() { return kReferenceKernels; }

}  // namespace rl::detail
