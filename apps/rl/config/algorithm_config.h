// AlgorithmConfig: what a run has to know of an algorithm: its settings and their defaults, the policy and the learner
// that they make, and which loop (loops/algorithm.h) runs it. A program may register its own.
//
//   register_algorithm({.name = "mine", .loop = LoopKind::kOnPolicy, .set_defaults = ..., .learner = ...})
//
// Registration belongs at the start of main, before troupe::run, so that every process of the program has it; from then
// on any thread may look names up.
//
// Invariants
//   ALC-1  A name that is taken, or an algorithm without name, policy or learner, is an InvalidArgumentError.
//   ALC-2  Settings of one algorithm are unknown to the others; who gives one of them is told whose it is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/config/run_config.h"

namespace rl {

/// Who plays, what is kept, and who waits for whom.
enum class LoopKind {
  kOnPolicy,     // batches of the present policy, advantages included (samples/on_policy.h)
  kAsynchronous, // fragments of policies that may be older (samples/fragments.h)
  kOffPolicy,    // transitions from a replay (samples/transitions.h)
  kSearch,       // returns of policies that were perturbed (samples/perturbations.h)
  kDataset,      // demonstrations, and no environment (samples/demonstrations.h)
};

struct AlgorithmConfig {
  std::string name;
  LoopKind loop = LoopKind::kOnPolicy;
  bool learns_on_gpus = false; // its learner heeds RunConfig::device (config/learner_gpu.h)
  bool clips_actions = true;   // to the bounds of a Box; else its policy keeps them and sees them
  bool heeds_masks = false;    // its learner takes the "mask" of its samples; else environments with masks are refused

  /// Settings of every run that mean nothing to this one: giving them is an error.
  std::vector<std::string> without = {};

  /// Into a RunConfig of RunConfig's own defaults. None: they stay.
  std::function<void(RunConfig&)> set_defaults = {};
  /// Those that other algorithms need not have; they point into the RunConfig. A user's algorithm keeps its own numbers
  /// in RunConfig::own.
  std::function<std::vector<Setting>(RunConfig&)> settings = {};
  std::function<DiscountSettings(const RunConfig&)> discount = {};  // none: gamma 0.99, lambda 0.95
  /// InvalidArgumentError when the algorithm cannot see or act in these spaces.
  std::function<troupe::Result<AnyPolicySpec>(const RunConfig&, const EnvSpecs&)> policy = {};
  std::function<std::unique_ptr<Learner>(const RunConfig&, const AnyPolicySpec&)> learner = {};
  /// Numbers that the learner keeps beside the policy's, for who has to know before memory is asked for. None: 0.
  std::function<std::size_t(const RunConfig&, const AnyPolicySpec&)> more_numbers = {};
};

/// Throws as ALC-1 says.
void register_algorithm(AlgorithmConfig algorithm);
/// InvalidArgumentError with the nearest name for one that is none. The pointer stays valid.
[[nodiscard]] troupe::Result<const AlgorithmConfig*> algorithm_config(const std::string& name);
/// In the order of their registration, ours first. They stay where they are.
[[nodiscard]] std::vector<const AlgorithmConfig*> algorithm_configs();

}  // namespace rl
