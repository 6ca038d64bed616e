// The actors that play: thin shells around RolloutWorker, FragmentRunner, TransitionRunner and PerturbationRunner.
// Methods run one at a time.
//
// PA-1  A runner that dies is restarted with fresh environments and random streams of its own, so that it does not play
//       its first episodes again, and its interrupted call runs again.
// PA-2  One that was given a state plays on from there, in its first life.
// PA-3  The episodes of one that died are told of as faults (kExited) with its first report after that: once, also
//       where it died twice meanwhile.
#pragma once

#include <optional>
#include <tuple>

#include "apps/rl/actors/inference_actor.h"
#include "apps/rl/actors/messages.h"
#include "apps/rl/training/fragment_runner.h"
#include "apps/rl/training/perturbation_runner.h"
#include "apps/rl/training/rollout.h"
#include "apps/rl/training/transition_runner.h"

namespace rl {

/// How runners are made: PA-1, and round the nodes of the cluster.
[[nodiscard]] troupe::ActorOptions runner_options();

/// For algorithms that learn from what their present policy plays.
class RolloutActor {
 public:
  RolloutActor(const RolloutOptions& options, const std::optional<StateDict>& resumed);

  /// One batch, and what else was seen in it.
  std::tuple<SampleBatch, RolloutReport> collect(troupe::Array<float> params, const Moments& moments);
  /// None: its environments cannot be saved.
  std::optional<StateDict> save() { return save_state(worker_); }

 private:
  RolloutWorker worker_;
  FaultCounts faults_before_;
};

/// For algorithms that work out their targets themselves.
class FragmentActor {
 public:
  /// `inference`: who chooses its actions, or nobody else does.
  FragmentActor(const FragmentRunnerOptions& options, std::optional<troupe::ActorHandle<InferenceActor>> inference);

  /// `version`: updates before these parameters.
  std::tuple<SampleBatch, RolloutReport> play(troupe::Array<float> params, std::int64_t version,
                                              const Moments& moments);
  /// By the inference actor, which has these parameters at least.
  std::tuple<SampleBatch, RolloutReport> play_by_others(ParamsRef params, std::int64_t version,
                                                        const Moments& moments);

 private:
  [[nodiscard]] ChosenActions ask(const Observations& seen, const ParamsRef& params);
  std::tuple<SampleBatch, RolloutReport> give(std::vector<EpisodeEnd> episodes, std::int64_t version);

  FragmentRunner runner_;
  FaultCounts faults_before_;
  FragmentId next_;  // of the next fragment, but for its version
  std::optional<troupe::ActorHandle<InferenceActor>> inference_;
};

/// For algorithms that learn from a replay.
class TransitionActor {
 public:
  TransitionActor(const TransitionRunnerOptions& options, const std::optional<StateDict>& resumed);

  /// The transitions that are complete, none perhaps, and what else was seen.
  std::tuple<SampleBatch, RolloutReport> play(troupe::Array<float> params, const PlayOrder& order,
                                              const Moments& moments);
  /// None: its environments cannot be saved.
  std::optional<StateDict> save() { return save_state(runner_); }

 private:
  TransitionRunner runner_;
  FaultCounts faults_before_;
};

/// For algorithms that compare policies by their returns. It keeps nothing between two calls: PTR-1.
class PerturbationActor {
 public:
  explicit PerturbationActor(const PerturbationRunnerOptions& options);

  /// The pairs of the order, and what else was seen.
  std::tuple<SampleBatch, RolloutReport> play(troupe::Array<float> params, const PerturbationOrder& order,
                                              const Moments& moments);

 private:
  PerturbationRunner runner_;
  FaultCounts faults_before_;
};

}  // namespace rl
