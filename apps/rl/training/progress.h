// What the progress of a training run says; apps/common/progress.h shows it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/rl/learners/learner.h"

namespace rl {

struct ProgressView {
  std::int64_t steps = 0;  // done, those before a resume included
  std::int64_t total_steps = 0;
  std::int64_t steps_this_run = 0;
  double seconds = 0;  // of this run
  double mean_return = 0, mean_length = 0;  // of the last episodes; lengths in steps
  std::vector<Metric> metrics = {};  // of the last update, those worth a look
};

/// "[####----] 36,864/500,000 steps  163k steps/s  return 212.4  length 212.4  loss 0.31  kl 0.008  entropy 0.58  ETA
/// 0:03", in one line.
/// The bar is bar_width characters; 0: no bar.
[[nodiscard]] std::string progress_line(const ProgressView& view, int bar_width);

}  // namespace rl
