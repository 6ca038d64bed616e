// One environment of the classic-control family, exact to Gymnasium: the state in double, one step a call, no time
// limit and no random numbers of its own (both belong to whoever drives it: sync_vector_env.h).
//
// An Env is used by one thread at a time. The dynamics are pure: the next state depends on the state and the action
// alone.
//
// EV-1  step() and observe() give Gymnasium's doubles and floats bit for bit where the recorded data allow it; these
//       files are compiled without fused contraction and without fast-math.
// EV-2  reset() draws from the given generator exactly what Gymnasium draws, in its order.
// EV-3  set_state(..., kAfterReset) and kAfterStep differ only where Gymnasium's own state changes type
//       (MountainCarContinuous and Acrobot's first observation).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/algorithms/rng.h"

namespace rl {

/// Gymnasium's arithmetic depends on the type of the action it is given.
enum class ActionType { kDiscrete, kFloat32, kFloat64 };

struct Action {
  double value = 0;
  ActionType type = ActionType::kDiscrete;
};

struct EnvSpec {
  static constexpr std::size_t kObsSizeMax = 6;

  std::string_view id;
  std::size_t state_size;
  std::size_t obs_size;
  int num_actions;  // 0: one continuous action
  int max_episode_steps;
  std::optional<double> reward_threshold;
  std::array<float, kObsSizeMax> obs_low, obs_high;  // of the first obs_size numbers, as Gymnasium rounds them
  float action_limit = 0;                            // of a continuous action, either way
};

struct StepOutcome {
  double reward;
  bool terminated;
};

enum class StateOrigin { kAfterReset, kAfterStep };

class Env {
 public:
  virtual ~Env() = default;
  [[nodiscard]] virtual const EnvSpec& spec() const = 0;
  virtual void reset(Generator& generator) = 0;
  virtual StepOutcome step(Action action) = 0;
  virtual void observe(std::span<float> obs) const = 0;
  virtual void set_state(std::span<const double> state, StateOrigin origin) = 0;
  [[nodiscard]] virtual std::span<const double> state() const = 0;
};

/// The environments by Gymnasium's names; an unknown name is an InvalidArgumentError that lists the known ones.
[[nodiscard]] troupe::Result<std::unique_ptr<Env>> make_env(std::string_view id);

/// The names that make_env knows.
[[nodiscard]] std::vector<std::string_view> env_ids();

}  // namespace rl
