// Plays fragments (samples/fragments.h): `horizon` steps of each environment, as they were.
//
//   play(params) ──▶ rows() ──▶ write()
//
// Actions are its own, by the parameters that it is given, or somebody else's (actors/inference_actor.h).
//
// A plain class: no threads, no runtime. One thread at a time.
//
// Invariants
//   FRR-1  The same options and the same sequence of parameters give the same fragments.
//   FRR-2  Rows are [step][environment], then a row of the last observation of each environment, then one for each
//          episode that was truncated: its true last observation.
//   FRR-3  Episodes continue from one play() to the next; environments reset themselves.
//   FRR-4  A faulted episode (BE-7) is no return. The row of its fault is no transition: it shows what the last action
//          was chosen for, so the good prefix bootstraps from it. With FaultPrefix::kDrop the rows of the prefix that
//          are in this fragment are no transitions either; what earlier fragments had of the episode was given.
//   FRR-5  Streams are those of seed_of: a runner that was restarted, and a resumed run, draw from others than before.
//   FRR-6  What an environment masks is never done, and fragments say what was allowed (samples/fragments.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "apps/rl/config/env_setup.h"
#include "apps/rl/policies/policy_sampler.h"
#include "apps/rl/samples/fragments.h"
#include "apps/rl/training/rollout.h"

namespace rl {

struct FragmentRunnerOptions {
  EnvSetup env = {};
  PolicySpec policy = {};
  std::size_t num_envs = 16;
  std::size_t horizon = 32;
  double gamma = 0.99;
  std::uint64_t seed = 1;
  std::uint32_t runner = 0;
  std::int64_t resumed_from = 0;
  std::uint32_t life = 0;
  FaultPrefix fault_prefix = FaultPrefix::kBootstrap;
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
};

class FragmentRunner {
 public:
  /// Throws what MadeEnv::make says of it, and InvalidArgumentError when the policy is for other spaces.
  explicit FragmentRunner(const FragmentRunnerOptions& options);

  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  [[nodiscard]] std::vector<EpisodeEnd> play(std::span<const float> params);
  /// Actions and log-probabilities of one step of all environments, as PolicySampler::choose gives them.
  using Choose = std::function<void(const Seen& seen, Rows actions, std::span<float> log_prob)>;
  [[nodiscard]] std::vector<EpisodeEnd> play(const Choose& choose);
  /// Of what was played last.
  [[nodiscard]] std::size_t rows() const { return transitions() + options_.num_envs + finals_.size(); }
  void write(const SampleLayout& layout, std::byte* memory) const;

  void sync(const Moments& moments) { made_.sync(moments); }
  [[nodiscard]] Moments take_deltas() { return made_.take_deltas(); }
  /// Faulted episodes since the last call.
  [[nodiscard]] FaultCounts take_faults() { return std::exchange(faults_, {}); }

 private:
  struct Final {
    std::size_t row = 0;  // the transition that it follows
    std::vector<std::byte> obs;
  };
  [[nodiscard]] std::size_t transitions() const { return options_.num_envs * options_.horizon; }
  void take_step(std::uint32_t step, std::vector<EpisodeEnd>& episodes);
  void drop_prefix(std::size_t row);

  FragmentRunnerOptions options_;
  MadeEnv made_;
  std::vector<Column> columns_;
  PolicySampler sampler_;
  OwnedRows last_obs_, obs_, actions_;  // the latter two of all transitions
  std::vector<float> log_prob_;
  std::vector<double> reward_;
  std::vector<std::uint8_t> terminated_, truncated_, is_reset_;
  std::vector<std::uint8_t> mask_;  // of all transitions; empty: every choice is allowed
  std::vector<Final> finals_;
  FaultCounts faults_{};
};

}  // namespace rl
