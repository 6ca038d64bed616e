// Acrobot-v1: two links, torque on the joint between them, one Runge-Kutta step of 0.2 s.
// See env.h for the rules.
//
// AB-1  The reset state is rounded to float32 and observed with float32 trigonometry; every later state is double.
// AB-2  Reward -1, but 0 on the step that reaches the goal.
#pragma once

#include <array>
#include <span>

#include "apps/rl/envs/env.h"

namespace rl {

class Acrobot final : public Env {
 public:
  static const EnvSpec kSpec;
  [[nodiscard]] const EnvSpec& spec() const override { return kSpec; }
  void reset(Generator& generator) override;
  StepOutcome step(Action action) override;
  void observe(std::span<float> obs) const override;
  void set_state(std::span<const double> state, StateOrigin origin) override;
  [[nodiscard]] std::span<const double> state() const override { return state_; }

 private:
  std::array<double, 4> state_{};
  bool single_precision_ = true;  // right after a reset (AB-1)
};

}  // namespace rl
