// Plays policies whose parameters are perturbed (ARS): of each direction two episodes, one with it added and one with
// it subtracted, from the same first state.
//
// A plain class: no threads, no runtime. One thread at a time.
//
// Invariants
//   PTR-1  What it plays depends on the options, the parameters, the moments and the order alone: whoever plays an
//          order again (a runner that was restarted, a resumed run) plays the same.
//   PTR-2  An episode that faulted (BE-7) is no return: it is played anew, and its steps do not count. kMostFaults in a
//          row are a RuntimeEnvError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "apps/rl/algorithms/ars.h"
#include "apps/rl/config/env_setup.h"
#include "apps/rl/policies/any_policy.h"
#include "apps/rl/training/rollout.h"

namespace rl {

struct PerturbationRunnerOptions {
  EnvSetup env = {};
  PolicySpec policy = {};
  double deviation = 0.05;   // of the perturbations
  double gamma = 0.99;       // of the returns whose deviation divides rewards
  std::uint64_t seed = 1;
};

/// `count` directions of an update, from `first` on.
struct PerturbationOrder {
  std::int64_t update = 0;
  std::uint32_t first = 0, count = 0;
};

class PerturbationRunner {
 public:
  static constexpr int kMostFaults = 100;

  /// Throws what MadeEnv::make says of it, and InvalidArgumentError when the policy is for other spaces.
  explicit PerturbationRunner(const PerturbationRunnerOptions& options);

  /// A pair a direction.
  [[nodiscard]] std::vector<ArsPair> play(std::span<const float> params, const PerturbationOrder& order);
  /// The episodes of the last play(), one after the other: each `step` is that of all of them together.
  [[nodiscard]] const std::vector<EpisodeEnd>& episodes() const { return episodes_; }

  void sync(const Moments& moments) { made_.sync(moments); }
  [[nodiscard]] Moments take_deltas() { return made_.take_deltas(); }
  /// Faulted episodes since the last call.
  [[nodiscard]] FaultCounts take_faults() { return std::exchange(faults_, {}); }

 private:
  double episode(std::span<const float> params, std::uint64_t seed);

  PerturbationRunnerOptions options_;
  MadeEnv made_;
  std::unique_ptr<Player> player_;
  StepBuffers step_;
  OwnedRows actions_;
  std::vector<EpisodeEnd> episodes_;
  std::uint32_t steps_ = 0;  // of them
  FaultCounts faults_{};
};

}  // namespace rl
