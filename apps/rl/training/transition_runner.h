// Plays environments and gives transitions (samples/transitions.h): what off-policy algorithms learn from.
//
//   play(params, order) ──▶ rows() ──▶ take()
//
// A plain class: no threads, no runtime. One thread at a time.
//
// Invariants
//   TRR-1  The same options and the same sequence of parameters and orders give the same transitions.
//   TRR-2  Episodes continue from one play() to the next. A transition of n steps comes when its window is full, or its
//          episode has ended: up to n - 1 steps of each environment wait for the next play().
//   TRR-3  Steps before `random_steps`, counted over all runners of the run, take any action; epsilon is that of its
//          schedule at the same count.
//   TRR-4  A faulted episode (BE-7) is no return. Its good prefix is bootstrapped, or dropped (fault_prefix): all of it
//          that waits for its window to fill; transitions that were complete stay.
//   TRR-5  Streams are those of seed_of: a runner that was restarted, and a resumed run, draw from others than before.
//   TRR-6  Noise that stays begins anew with each episode of its environment, and passes in no random step.
//   TRR-7  After restore_state of what save_state gave, with the same options, it plays as it would have.
//   TRR-8  What an environment masks is never done, by no policy and in no random step, and transitions say what is
//          allowed behind them (samples/transitions.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "apps/rl/algorithms/action_noise.h"
#include "apps/rl/algorithms/rng.h"
#include "apps/rl/algorithms/schedule.h"
#include "apps/rl/config/env_setup.h"
#include "apps/rl/policies/any_policy.h"
#include "apps/rl/replay/transition_builder.h"
#include "apps/rl/training/rollout.h"

namespace rl {

enum class NoiseKind : std::uint8_t {
  kWhite,              // the policy's own draws
  kColored,            // in place of them
  kOrnsteinUhlenbeck,  // beside them
  kGsde,               // of a matrix that stays: networks/gsde_network.h
};
struct NoiseOptions {
  NoiseKind kind = NoiseKind::kWhite;
  double beta = 1;     // of colored noise
  double sigma = 0.5;  // of an Ornstein-Uhlenbeck process
  std::uint64_t interval = 64;  // ANO-3, of gSDE's matrix
};

struct TransitionRunnerOptions {
  EnvSetup env = {};
  AnyPolicySpec policy = {};
  std::size_t num_envs = 1;
  std::size_t n_step = 1;
  double gamma = 0.99;
  LinearDecay epsilon = {.first = 0, .last = 0};  // of a Q-network's policy
  std::int64_t random_steps = 0;
  FaultPrefix fault_prefix = FaultPrefix::kBootstrap;
  NoiseOptions noise = {};        // of a squashed Gaussian's actions
  std::uint64_t seed = 1;
  std::uint32_t runner = 0;       // runners of one run differ only in this
  std::int64_t resumed_from = 0;  // environment steps of the run before it was resumed
  std::uint32_t life = 0;         // restarts of this runner
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
};

struct PlayOrder {
  std::size_t steps = 1;          // of each environment
  std::int64_t done = 0;          // environment steps of all runners before these
  std::int64_t together = 1;      // environments of all runners
};

class TransitionRunner {
 public:
  /// Throws what MadeEnv::make and make_player say, and InvalidArgumentError when the policy is for other spaces.
  explicit TransitionRunner(const TransitionRunnerOptions& options);

  [[nodiscard]] const std::vector<Column>& columns() const { return builder_.columns(); }
  [[nodiscard]] std::vector<EpisodeEnd> play(std::span<const float> params, const PlayOrder& order);
  /// Transitions that nobody has taken.
  [[nodiscard]] std::size_t rows() const { return builder_.rows(); }
  void take(const SampleLayout& layout, std::byte* memory) { builder_.take(layout, memory); }
  [[nodiscard]] OwnedSamples take() { return builder_.take(); }

  /// Of observations and rewards (env_setup.h). Transitions hold what the policy saw: they are not normalized anew.
  void sync(const Moments& moments) { made_.sync(moments); }
  [[nodiscard]] Moments take_deltas() { return made_.take_deltas(); }
  /// Faulted episodes since the last call.
  [[nodiscard]] FaultCounts take_faults() { return std::exchange(faults_, {}); }
  /// Between two play() and after take_deltas(): TRR-7.
  bool visit(StateVisitor& visitor);

 private:
  void see_mask();
  void act(std::span<const float> params, std::int64_t done);
  void end_faulted();
  void reset_noise(const EpisodeEnds& ends);

  TransitionRunnerOptions options_;
  MadeEnv made_;
  std::unique_ptr<Player> player_;
  Generator generator_;
  std::unique_ptr<ActionNoise> noise_;  // none: white
  TransitionBuilder builder_;
  OwnedRows obs_, actions_;
  std::vector<std::uint8_t> mask_;  // what is allowed at obs_; empty: everything
  StepBuffers step_;
  FaultCounts faults_{};
};

}  // namespace rl
