// What a training run has achieved so far: steps, the mean return of the last 100 episodes, the learning curve, and
// when it was solved.
//
// Pure: the caller brings the clock. A plain aggregate, so it is stored in checkpoints whole.
//
// RTL-1  An episode counts at the environment step at which it ended, all environments of all workers taken together.
// RTL-2  Solved: for the first time 100 episodes are in the window and their mean reaches the threshold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/rl/learners/learner.h"
#include "apps/rl/training/gate.h"
#include "apps/rl/training/rollout.h"

namespace rl {

inline constexpr std::size_t kReturnWindow = 100;

struct CurvePoint {
  std::int64_t steps = 0;
  float mean_return = 0;
};

/// What the learner said of one update.
struct UpdatePoint {
  std::int64_t steps = 0;
  std::vector<float> values = {};  // of TrainingLog::metrics
};

struct TrainingLog {
  std::optional<double> threshold = {};  // the mean return that counts as solved; none: nothing does
  std::int64_t point_every = 0;          // steps between points of the curves, at least
  std::int64_t steps = 0;
  std::int64_t episodes = 0;
  std::int64_t updates = 0;
  FaultCounts faults = {};         // episodes that were broken off: none of them is in `episodes`
  double seconds = 0;              // spent so far, resumed runs included
  std::vector<float> recent = {};       // returns of the last episodes, oldest first, at most kReturnWindow
  std::vector<std::int64_t> recent_lengths = {};  // of the same episodes, in steps, as far as they are known
  std::vector<CurvePoint> curve = {};   // at most one point a round, once an episode has ended
  std::vector<std::string> metrics = {};   // names, those of the first update
  std::vector<UpdatePoint> learning = {};  // at most one point a round
  std::vector<CopyResult> copies = {};     // that were played without exploration (gate.h)
  std::optional<CopyResult> copy_again = {};
  std::int64_t solved_steps = -1;  // -1: not yet
  double solved_seconds = -1;

  /// One iteration: the episodes that each worker saw while its `num_envs` environments played `horizon` steps.
  void add(std::span<const std::vector<EpisodeEnd>> workers, std::size_t num_envs, std::size_t horizon,
           double seconds_now);

  /// The update that followed it.
  void add(const UpdateReport& report);
  /// The last value of a metric; none: there was no update, or no such metric.
  [[nodiscard]] std::optional<double> last(std::string_view metric) const;

  /// Of the episodes in the window; 0 when there is none.
  [[nodiscard]] double mean_return() const;
  /// In steps; 0 when there is none.
  [[nodiscard]] double mean_length() const;
  /// Of the returns in the window without the lowest and the highest quarter of them; 0 when there is none.
  [[nodiscard]] double interquartile_mean_return() const;
  [[nodiscard]] bool solved() const { return solved_steps >= 0; }
};

}  // namespace rl
