// Collects experience: n environments played by a given policy for a fixed number of steps, advantages included.
//
// A plain class: no threads, no runtime. One thread at a time.
//
// ROL-1  The same options and the same sequence of parameters give the same batches, on any run and any placement.
// ROL-2  Episodes continue from one collect() to the next; environments reset themselves (BE-2), and a truncated
//        episode bootstraps from its true last observation.
// ROL-3  Training uses the exact environment (CVE-1, Isa::kReference); only the networks run vectorized.
// ROL-4  A faulted episode (BE-7) is no return. The row of its fault is no transition: its advantage is 0 and its
//        return the value that it was given, so the good prefix bootstraps from the observation of that row. With
//        FaultPrefix::kDrop neither that row nor those of the prefix that are in this batch are in kept(); what earlier
//        batches had of the episode was learned from.
// ROL-5  After restore_state of what save_state gave, with the same options, it plays as it would have.
// ROL-6  A worker that was restarted draws from streams of seed_of that no other life, worker or environment has.
// ROL-7  What an environment masks is never done, and batches say what was allowed (samples/on_policy.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/rl/algorithms/gae.h"
#include "apps/rl/algorithms/rng.h"
#include "apps/rl/config/env_setup.h"
#include "apps/rl/policies/distribution.h"
#include "apps/rl/policies/observation_encoder.h"
#include "apps/rl/policies/policy_spec.h"
#include "apps/rl/samples/on_policy.h"

namespace rl {

/// Of episodes, by FaultKind.
using FaultCounts = std::array<std::int64_t, 3>;

struct RolloutOptions {
  EnvSetup env = {};
  PolicySpec policy = {};
  std::size_t num_envs = 16;
  std::size_t horizon = 64;  // steps of each environment in one batch
  GaeOptions gae{.gamma = 0.98, .lambda = 0.9};
  std::uint64_t seed = 1;
  std::uint32_t worker = 0;       // workers of one run differ only in this
  std::int64_t resumed_from = 0;  // env steps done before: a resumed run does not play the first episodes again
  std::uint32_t life = 0;         // restarts of this worker: nor does one that came back play its first episodes again
  FaultPrefix fault_prefix = FaultPrefix::kBootstrap;
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
};

/// An episode that ended during a rollout, in the order of its end.
struct EpisodeEnd {
  std::uint32_t step = 0;  // of the rollout, from 0
  float episode_return = 0;
  std::int64_t length = 0;  // in steps
};

class RolloutWorker {
 public:
  /// Throws what MadeEnv::make says of it, and InvalidArgumentError when the policy is for other spaces.
  explicit RolloutWorker(const RolloutOptions& options);

  [[nodiscard]] std::size_t samples() const { return options_.num_envs * options_.horizon; }
  /// Of a batch of samples() rows.
  [[nodiscard]] std::vector<Column> columns() const;

  /// Plays `horizon` steps with these parameters and fills `out`, whose spans hold samples() rows.
  std::vector<EpisodeEnd> collect(std::span<const float> params, const OnPolicyOut& out);
  /// The rows of the last batch that are to be learned from, ascending, where some are not (ROL-4); none: all are.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> kept() const;
  /// Of observations and rewards (env_setup.h).
  void sync(const Moments& moments) { made_.sync(moments); }
  [[nodiscard]] Moments take_deltas() { return made_.take_deltas(); }
  /// Faulted episodes since the last call.
  [[nodiscard]] FaultCounts take_faults() { return std::exchange(faults_, {}); }
  /// Between two collect() and after take_deltas(): ROL-5.
  bool visit(StateVisitor& visitor);

 private:
  void act(std::size_t begin, std::span<const std::uint8_t> mask, const OnPolicyOut& out);
  void values_of(std::span<const float> params, ConstRows obs);
  void record_endings(std::uint32_t step, std::vector<EpisodeEnd>& episodes);
  void record_faults(std::uint32_t step, std::span<const float> values);
  void drop_prefix(std::uint32_t step, std::size_t env);

  RolloutOptions options_;
  MadeEnv made_;
  ActorCritic<float> net_;
  ObservationEncoder encoder_;
  std::unique_ptr<Distribution<float>> distribution_;
  Generator generator_;
  OwnedRows last_obs_;
  std::vector<float> encoded_, action_params_, values_, reward_, final_value_;
  std::vector<double> step_reward_;
  std::vector<std::uint8_t> terminated_, truncated_, is_reset_;
  std::vector<std::byte> final_obs_;
  FaultCounts faults_{};
  std::vector<std::size_t> final_rows_;  // the samples whose final_obs_ are kept
  std::vector<std::uint8_t> dropped_;    // of the samples; empty: none is
};

}  // namespace rl
