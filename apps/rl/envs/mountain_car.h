// MountainCar-v0: a car too weak for its hill.
// See env.h for the rules.
//
// MC-1  The wall test is position == -1.2 and velocity < 0, after clipping. Reward -1 on every step, the goal step too.
#pragma once

#include <array>
#include <span>

#include "apps/rl/envs/env.h"

namespace rl {

class MountainCar final : public Env {
 public:
  static const EnvSpec kSpec;
  [[nodiscard]] const EnvSpec& spec() const override { return kSpec; }
  void reset(Generator& generator) override;
  StepOutcome step(Action action) override;
  void observe(std::span<float> obs) const override;
  void set_state(std::span<const double> state, StateOrigin origin) override;
  [[nodiscard]] std::span<const double> state() const override { return state_; }

 private:
  std::array<double, 2> state_{};
};

}  // namespace rl
