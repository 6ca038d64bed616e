// SameStepReset: begins the next episodes of what is of AutoReset::kDisabled, in the step that ends one: BE-2.
//
// One thread at a time. Promises: BE-1 to BE-7 of batch_env.h, of kSameStep. Something inside that resets itself, but
// by a fault, is an InvalidArgumentError at the first step that shows it.
#pragma once

#include <memory>
#include <vector>

#include "apps/rl/envs/wrappers/env_wrapper.h"

namespace rl {

class SameStepReset final : public EnvWrapper {
 public:
  explicit SameStepReset(std::unique_ptr<BatchEnv> inner);

  void reset(std::span<const std::uint64_t> seeds) override;
  void step(ConstRows actions, const StepOut& out) override;
  [[nodiscard]] EpisodeEnds ends() const override;
  /// Of the step alone: those of a beginning behind it have ended no episode.
  [[nodiscard]] std::span<const Fault> faults() const override { return faults_; }

 private:
  std::vector<Fault> faults_;
  std::vector<std::uint32_t> ended_;
  std::vector<double> returns_;
  std::vector<std::int64_t> lengths_;
  OwnedRows final_obs_, shown_;
  std::vector<std::uint8_t> final_mask_;  // of final_obs_
};

}  // namespace rl
