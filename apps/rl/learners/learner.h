// Learner: holds the parameters of an algorithm and improves them from samples.
//
// A plain class: no threads, no runtime. One thread at a time. Whatever it draws comes from generators of its own,
// which belong to its state.
//
// Invariants
//   LRN-1  The same options, state and batches in the same order give the same parameters, bit for bit, on one
//          instruction set.
//   LRN-2  save() and restore() carry everything: an update after restore gives the bits of the update without it.
//   LRN-3  A loss or gradient that is not finite is an InvalidArgumentError that says which; the parameters stay as
//          they were before that step.
//   LRN-4  Learners that joined one group and are given the same batches hold the same parameters bit for bit, those
//          of one learner but for the rounding of sums. What fails fails on all of them.
//   LRN-5  Batches of runners without a transition (all were dropped: ROL-4, FRR-4) change nothing, and the report is
//          empty.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/learners/peers.h"
#include "apps/rl/state/state_dict.h"
#include "apps/rl/samples/sample_batch.h"

namespace rl {

/// What an update tells, by the names that logs use: "loss", "kl", "entropy", "learning_rate", ...
struct Metric {
  std::string name;
  double value = 0;
  friend bool operator==(const Metric&, const Metric&) = default;
};

struct UpdateReport {
  std::vector<Metric> metrics;      // means over the update's minibatches
  std::vector<float> td_errors;     // absolute, one a row, where a replay wants them as priorities
};

class Learner {
 public:
  virtual ~Learner() = default;
  /// What acting needs: published to runners.
  [[nodiscard]] virtual std::span<const float> params() const = 0;
  virtual UpdateReport update(std::span<const SampleView> batches) = 0;
  /// Does what of the next update can be done before its batches are there; may be called at any time, or not at all:
  /// nothing that can be seen depends on it.
  virtual void prepare() {}
  [[nodiscard]] virtual StateDict save() const = 0;
  /// SerializationError (thrown) when it is the state of something else; nothing has changed then.
  virtual void restore(const StateDict& state) = 0;
  /// From now on it shares its updates with them (LRN-4). InvalidArgumentError, thrown, where it can only learn alone.
  virtual void join(const Peers& peers);
};

}  // namespace rl
