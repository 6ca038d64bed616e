// CheckFinite: an observation or a reward that is NaN or infinite ends training where it appears, by an error that says
// which environment gave it: later there would be a loss that is NaN, and nobody could say why.
//
// One thread at a time, as what is inside.
//
//   CKF-1  A number that is not finite, in an observation (also an episode's last one) or a reward, is an
//          InvalidArgumentError, thrown, that names the environment, its index in the batch, the seed of its stream,
//          and the step since that seed, from 1 on; in what a reset shows it is that of the steps before, or 0.
//   CKF-2  It cannot be saved after that: it stands in the middle of a step that was never learned from.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/rl/envs/wrappers/env_wrapper.h"

namespace rl {

class CheckFinite final : public EnvWrapper {
 public:
  explicit CheckFinite(std::unique_ptr<BatchEnv> inner) : EnvWrapper(std::move(inner)) {}

  void reset(std::span<const std::uint64_t> seeds) override;
  void observe(Rows obs) const override;
  /// Costs one pass over what the step gave; of integers nothing.
  void step(ConstRows actions, const StepOut& out) override;
  /// The names of what is inside are its own, so that states of before this wrapper fit.
  bool visit(StateVisitor& visitor) override;

 private:
  void check(ConstRows obs) const;
  void check_last(const EpisodeEnds& ends) const;
  [[noreturn]] void refuse(const char* what, std::size_t env, double value) const;

  std::vector<std::uint64_t> seeds_;  // empty: it goes on from a state that does not tell them
  std::int64_t steps_ = 0;            // of each environment since they were seeded
  bool refused_ = false;
};

}  // namespace rl
