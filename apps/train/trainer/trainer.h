// Trainer: one rank's side of data-parallel training. It knows a model (model.h) and a group, nothing of actors and
// processes.
//
// A step, with two buckets and two micro-batches (the second one's backward pass is what releases buckets):
//
//   input | forward+backward | forward+backward ................. | wait | norm, clip | update b0 | update b1 | wait
//                               reduce b0 ====== reduce b1 ==========                gather b0 == gather b1 == (ZeRO-1)
//
// Invariants
//   TR-1  The same seed, global batch and number of ranks give the same bits; ZeRO-0 and ZeRO-1 give the same bits.
//   TR-2  The global batch does not depend on the number of ranks. Each rank's gradient is divided by the global count,
//         and the ranks' gradients are summed in rank order.
//   TR-3  Micro-batches before the last send nothing.
//   TR-4  The gradient is clipped by the norm of the whole, reduced gradient (KO-2, KO-3).
//   TR-5  A step that returns DivergedError has changed neither parameters nor moments. One that returns
//         CollectiveError may have: whole() is then false, and only bind() followed by a restored state makes the
//         trainer usable again.
//   TR-6  Everything random is a function of (seed, step): `step`, parameters, moments and the watch are the whole
//         state.
// Thread rule: one thread; the group's helper thread reduces meanwhile.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <troupe/collective.h>
#include <troupe/result.h>

#include "apps/train/trainer/buckets.h"
#include "apps/train/trainer/metrics.h"
#include "apps/train/model/model.h"
#include "apps/train/trainer/sampler.h"
#include "apps/train/trainer/schedule.h"
#include "apps/train/trainer/zero.h"

namespace troupe::train {

enum class Rule : std::uint8_t { kAdamW, kSgd };

struct OptimizerOptions {
  Rule rule = Rule::kAdamW;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< kAdamW
  double momentum = 0.9;                              ///< kSgd
  double weight_decay = 0;                            ///< on tensors that decay
};

/// What happens, in order. `bucket` is 0 where it means nothing.
enum class Event : std::uint8_t {
  kStepBegins,
  kReduceIssued,
  kBackwardEnds,
  kReduced,
  kUpdated,
  kGatherIssued,
  kStepEnds,
  kCommitBegins,
  kCommitCopied,
  kCommitSent,
  kCommitEnds,
};
using Observer = std::function<void(Event, std::size_t bucket)>;

struct TrainerOptions {
  std::uint64_t seed = 0;           ///< of the parameters
  std::size_t micro_rows = 0;       ///< rows of a micro-batch at most; 0: all at once
  std::size_t targets_per_row = 0;  ///< all counted; 0: counted at every step, by a collective of 8 bytes
  Zero zero = Zero::k0;
  BucketOptions buckets = {};
  OptimizerOptions optimizer = {};
  ScheduleOptions schedule = {};
  double max_norm = 0;  ///< of the gradient; 0: not clipped
  WatchOptions watch = {};
  std::function<double()> clock = {};  ///< seconds; empty: the steady clock
  Observer observer = {};              ///< may be empty
};

struct StepOptions {
  bool stop = false;  ///< this rank asks all to stop after the step: StepMetrics::stop
};

/// Rows of the data set by number; what the batch points to lives until the next call.
using Loader = std::function<Batch(std::span<const std::uint64_t> rows)>;

template <class T>
class Trainer {
 public:
  /// InvalidArgumentError for options that cannot be. Nothing is sent.
  static Result<std::unique_ptr<Trainer>> create(Model<T>& model, Loader loader, Sampler sampler,
                                                 TrainerOptions options);

  /// Joins a group: another world size gives another plan. Parameters stay, moments are zero.
  void bind(collective::Group group);
  /// Step 0: rank 0 makes the parameters, the others receive them.
  Status start();
  /// One update on the next global batch. All ranks call it. CollectiveError, DivergedError.
  Result<StepMetrics> step(StepOptions options = {});
  /// The loss of rows [0, count) of another data set, cut among the ranks and summed in rank order.
  Result<Loss> evaluate(const Loader& loader, std::size_t count, std::size_t rows_at_once);

  // ---- the state, as commits and checkpoints take and restore it
  static constexpr std::size_t kMoments = 2;
  std::int64_t steps_done() const { return steps_done_; }
  std::span<const T> parameters() const { return std::span<const T>(parameters_).first(count_); }
  std::span<T> mutable_parameters() { return std::span<T>(parameters_).first(count_); }
  /// Compact (zero.h); the second one is empty with SGD.
  std::span<T> moments(std::size_t which) { return moments_[which]; }
  /// Takes what the own shard shares with this range of the flat moments.
  void install_moments(std::size_t which, std::size_t flat_begin, std::span<const T> values);
  /// The state is complete and stands at this step.
  void restored(std::int64_t steps_done, const DivergenceWatch::State& watch);
  bool whole() const { return whole_; }

  collective::Group& group() { return group_; }
  const ShardPlan& plan() const { return plan_; }
  const TrainerOptions& options() const { return options_; }
  const Model<T>& model() const { return *model_; }
  const Sampler& sampler() const { return sampler_; }
  const DivergenceWatch& watch() const { return watch_; }
  /// Tells the observer.
  void tell(Event event, std::size_t bucket = 0) const {
    if (options_.observer) options_.observer(event, bucket);
  }

 private:
  Trainer(Model<T>& model, Loader loader, Sampler sampler, TrainerOptions options);
  struct Running;  // a step under way
  StepMetrics run_step(StepOptions options);
  double divisor(Running& run);
  void accumulate(Running& run);
  void release(Running& run, std::size_t offset);
  Loss backward(Running& run, const Batch& batch, bool last);
  double norm(Running& run);
  void update(Running& run, double norm);
  void update_bucket(std::size_t bucket, double rate, double scale);
  double now() const { return options_.clock(); }

  Model<T>* model_;
  Loader loader_;
  Sampler sampler_;
  TrainerOptions options_;
  std::size_t count_;
  collective::Group group_;
  ShardPlan plan_;
  std::vector<std::vector<Piece>> pieces_;  // a bucket each
  std::vector<T> parameters_, gradients_;   // of plan_.buckets().padded elements
  std::array<std::vector<T>, kMoments> moments_;
  DivergenceWatch watch_;
  std::int64_t steps_done_ = 0;
  std::optional<double> step_ended_;  // the last one in this group
  bool whole_ = false;
};

extern template class Trainer<float>;
extern template class Trainer<double>;

}  // namespace troupe::train
