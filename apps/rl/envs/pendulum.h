// Pendulum-v1: swing up by torque; never terminates. See env.h for the rules.
//
// PEN-1  The cost uses angle, speed and torque before the update. With a float32 action the terms in the torque are
//        float32.
#pragma once

#include <array>
#include <span>

#include "apps/rl/envs/env.h"

namespace rl {

class Pendulum final : public Env {
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
