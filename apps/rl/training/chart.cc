#include "apps/rl/training/chart.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/common/line_chart.h"

namespace rl {

std::string learning_curve_svg(const TrainingLog& log, const std::string& title) {
  std::vector<apps::Series> series(1);
  for (const CurvePoint& point : log.curve)
    series[0].points.push_back({static_cast<double>(point.steps), static_cast<double>(point.mean_return)});
  double lowest = 0;
  for (const CurvePoint& point : log.curve) lowest = std::min(lowest, static_cast<double>(point.mean_return));
  if (log.solved())
    series.push_back({.name = fmt::format("{} steps, {:.2f} s", log.solved_steps, log.solved_seconds),
                      .color = "#c2571a",
                      .dots = true,
                      .points = {{static_cast<double>(log.solved_steps), *log.threshold}}});
  std::vector<apps::Level> levels;
  if (log.threshold) levels.push_back({.y = *log.threshold, .name = fmt::format("solved at {:g}", *log.threshold)});
  return apps::line_chart_svg({.title = title,
                               .x_label = "environment steps",
                               .y_label = "mean return, last 100 episodes",
                               .x_end = static_cast<double>(std::max<std::int64_t>(log.steps, 1000)),
                               .y_from = lowest,
                               .levels = std::move(levels)},
                              series);
}

}  // namespace rl
