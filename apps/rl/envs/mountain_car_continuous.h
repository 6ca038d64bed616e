// MountainCarContinuous-v0: the same hill with a continuous force. See env.h for the rules.
//
// MCC-1  The state is double right after a reset and float32 after every step; each operation has the type that NumPy
//        2 gives it (a float32 scalar beside a Python float stays float32), which depends on the type of the action
//        and on clipping.
// MCC-2  The reward takes the unclipped action; the goal is at 0.45.
#pragma once

#include <array>
#include <span>

#include "apps/rl/envs/env.h"

namespace rl {

class MountainCarContinuous final : public Env {
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
  bool single_precision_ = false;  // the state has been through a step (MCC-1)
};

}  // namespace rl
