// Wrappers that change one thing and remember nothing: clipped rewards, clipped and rescaled actions, by Gymnasium's
// names.
//
// One thread at a time.
#pragma once

#include <memory>

#include "apps/rl/envs/wrappers/env_wrapper.h"

namespace rl {

/// Rewards within [low, high]; episodes' returns stay raw.
class ClipReward final : public EnvWrapper {
 public:
  /// InvalidArgumentError when low > high.
  static troupe::Result<std::unique_ptr<ClipReward>> make(std::unique_ptr<BatchEnv> inner, double low, double high);
  void step(ConstRows actions, const StepOut& out) override;

 private:
  ClipReward(std::unique_ptr<BatchEnv> inner, double low, double high)
      : EnvWrapper(std::move(inner)), low_(low), high_(high) {}
  double low_, high_;
};

/// Takes any float32 action and gives what is inside the nearest one within its bounds.
class ClipAction final : public EnvWrapper {
 public:
  /// InvalidArgumentError for other action spaces.
  static troupe::Result<std::unique_ptr<ClipAction>> make(std::unique_ptr<BatchEnv> inner);
  void step(ConstRows actions, const StepOut& out) override;

 private:
  explicit ClipAction(std::unique_ptr<BatchEnv> inner);
  Box bounds_;
  OwnedRows actions_;
};

/// Takes actions within [-1, 1] and stretches them to the bounds of what is inside. Actions beyond are not clipped.
class RescaleAction final : public EnvWrapper {
 public:
  /// InvalidArgumentError for other action spaces than float32 within finite bounds.
  static troupe::Result<std::unique_ptr<RescaleAction>> make(std::unique_ptr<BatchEnv> inner);
  void step(ConstRows actions, const StepOut& out) override;

 private:
  explicit RescaleAction(std::unique_ptr<BatchEnv> inner);
  Box bounds_;
  OwnedRows actions_;
};

}  // namespace rl
