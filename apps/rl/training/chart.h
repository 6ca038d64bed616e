// The learning curve as an SVG picture. Pure: text out, nothing written.
#pragma once

#include <string>

#include "apps/rl/training/training_log.h"

namespace rl {

/// A complete SVG file. An empty curve gives the axes and the threshold alone.
[[nodiscard]] std::string learning_curve_svg(const TrainingLog& log, const std::string& title);

}  // namespace rl
