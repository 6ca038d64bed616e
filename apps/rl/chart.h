// The learning curve as an SVG picture. Pure: text out, nothing written.
#pragma once

#include <string>

#include "apps/rl/training_log.h"

namespace rl {

struct ChartOptions {
  std::string title = "PPO on CartPole-v1";
  int width = 860;
  int height = 440;
};

/// A complete SVG file. An empty curve gives the axes alone.
[[nodiscard]] std::string learning_curve_svg(const TrainingLog& log, const ChartOptions& options = {});

}  // namespace rl
