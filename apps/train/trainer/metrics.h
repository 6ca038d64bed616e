// Metrics of a step, averages over ranks, and the watch that ends a run which has lost its way.
//
// Invariants
//   MT-1  Loss, counts and norm are those of the global batch, the same on every rank; seconds are this rank's own
//         until average() makes a mean of them. Nothing is averaged behind the caller's back.
//   MT-2  The watch is a function of the losses that it was shown: all ranks come to the same verdict at the same step.
// Thread rule: plain values.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <troupe/collective.h>
#include <troupe/result.h>

namespace troupe::train {

/// Where the time of a step went. What is left of `total` is the trainer's own.
struct StepSeconds {
  double total = 0;
  double input = 0;          ///< waiting for rows
  double compute = 0;        ///< forward and backward
  double communication = 0;  ///< waiting for other ranks; what overlapped with compute is not in it
  double update = 0;         ///< norm and optimizer
  /// not in total: since the end of the group's step before (evaluation, commit, checkpoint)
  double between = 0;
};

/// Bytes that this rank sends in a step, by the formulas of the ring: 2(W-1)/W an all-reduce, (W-1)/W the others.
struct StepBytes {
  double gradients = 0, parameters = 0;
  double control = 0;  ///< counts, losses, sums of the norm's blocks
};

struct StepMetrics {
  std::int64_t step = 0;  ///< updates done, this one included
  double loss = 0;        ///< mean over the counted targets
  std::uint64_t counted = 0, correct = 0;
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  std::size_t rows = 0;  ///< of this rank
  StepSeconds seconds = {};
  StepBytes bytes = {};
  bool stop = false;  ///< a rank has asked to stop after this step; the same on all
};

/// The mean over all ranks of each value, on all ranks. Throws CollectiveError.
void average(collective::Group& group, std::span<double> values);

/// The loss is no number, or has risen for long. All ranks return it at the same step; the parameters are those before
/// it.
class DivergedError : public Error {
 public:
  DivergedError(std::int64_t step, double loss, const std::string& what) : Error(what), step_(step), loss_(loss) {}
  std::int64_t step() const { return step_; }
  double loss() const { return loss_; }
  [[noreturn]] void raise() const override { throw *this; }

 private:
  std::int64_t step_;
  double loss_;
};

struct WatchOptions {
  double rise = 1.5;            ///< diverged when the smoothed loss exceeds its best by this factor; 0: only NaN
  std::int64_t patience = 100;  ///< ... for so many steps on end
  double smoothing = 0.98;      ///< share of the old average in the new one
};

class DivergenceWatch {
 public:
  /// What a checkpoint keeps of it.
  struct State {
    double average = 0, best = 0;
    std::int64_t seen = 0, above = 0;
  };
  explicit DivergenceWatch(WatchOptions options = {}) : options_(options) {}
  /// DivergedError as soon as the loss of `step` says so.
  Status observe(std::int64_t step, double loss, double gradient_norm);
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  WatchOptions options_;
  State state_;
};

}  // namespace troupe::train
