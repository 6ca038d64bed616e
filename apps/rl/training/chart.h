// The learning curve as an SVG picture, of one run or of several seeds. Pure: text out, nothing written.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <troupe/result.h>

#include "apps/rl/training/seed_curves.h"
#include "apps/rl/training/training_log.h"

namespace rl {

/// A complete SVG file: the training's returns, and those of copies that were played without exploration. Without
/// either the axes and the threshold alone.
[[nodiscard]] std::string learning_curve_svg(const TrainingLog& log, const std::string& title);

struct SeedsChartOptions {
  std::string title = {};
  std::string y_label = "mean return, last 100 episodes";
  std::int64_t total_steps = 0;  ///< the picture reaches at least as far
  std::optional<double> threshold = {};  ///< a dashed line: where the environment counts as solved
  AcrossSeedsOptions across = {};
};

/// A complete SVG file: each seed as a thin line, and over them the mean (dashed), the interquartile mean and the
/// bootstrap interval of that. Errors: those of across_seeds.
[[nodiscard]] troupe::Result<std::string> seeds_svg(std::span<const SeedCurve> curves,
                                                     const SeedsChartOptions& options);

}  // namespace rl
