// The results of the program as JSON. Pure: text out.
#pragma once

#include <filesystem>
#include <string>

#include "apps/rl/training/evaluate.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/training/training_log.h"

namespace rl {

struct TrainingOutcome {
  RunConfig config = {};
  TrainingLog log = {};
  Gate gate = {};
  std::int64_t resumed_from = 0;  // steps
  double seconds_this_run = 0;
  bool interrupted = false;
  std::optional<Evaluation> final_look = {};  // at the policy as it is in the end; none: it was not played
  std::filesystem::path policy = {}, best = {}, picture = {}, checkpoint = {};  // empty: not written
};

/// Keys: solved, solved_steps, solved_seconds (null until solved), steps, seconds, steps_per_second, mean_return,
/// interquartile_mean_return and mean_length (of the last 100 episodes; lengths in steps), episodes, updates,
/// evaluations ([[steps, mean, deviation], ...]), gate and final_return ({mean, interquartile_mean, deviation}; null
/// where there is none), the settings, the files, and curve: [[steps, mean return], ...].
[[nodiscard]] std::string training_json(const TrainingOutcome& outcome);
[[nodiscard]] std::string evaluation_json(const Policy& policy, const Evaluation& evaluation);

}  // namespace rl
