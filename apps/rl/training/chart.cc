#include "apps/rl/training/chart.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/common/line_chart.h"
#include "apps/common/progress.h"

namespace rl {

std::string learning_curve_svg(const TrainingLog& log, const std::string& title) {
  std::vector<apps::Series> series(1);
  for (const CurvePoint& point : log.curve)
    series[0].points.push_back({static_cast<double>(point.steps), static_cast<double>(point.mean_return)});
  double lowest = 0;
  for (const CurvePoint& point : log.curve) lowest = std::min(lowest, static_cast<double>(point.mean_return));
  apps::Series copies{.name = "without exploration", .color = "#6b7682", .width = 1.6, .dots = true, .dashes = "5 3"};
  for (const CopyResult& copy : log.copies) {
    copies.points.push_back({static_cast<double>(copy.steps), copy.mean});
    lowest = std::min(lowest, copy.mean);
  }
  if (!copies.points.empty()) series.push_back(std::move(copies));
  if (log.solved())
    series.push_back({.name = fmt::format("solved after {} steps, {:.2f} s", apps::grouped(log.solved_steps),
                                          log.solved_seconds),
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

troupe::Result<std::string> seeds_svg(std::span<const SeedCurve> curves, const SeedsChartOptions& options) {
  const troupe::Result<std::vector<CurveEstimate>> across = across_seeds(curves, options.across);
  if (!across.ok()) return across.error_ptr();
  std::vector<apps::Series> series;
  for (const SeedCurve& curve : curves) {
    apps::Series one{.color = "#6b7682", .width = 1, .opacity = 0.55};
    for (const CurvePoint& point : curve.points)
      one.points.push_back({static_cast<double>(point.steps), static_cast<double>(point.mean_return)});
    series.push_back(std::move(one));
  }
  // One name for all of them, at the first.
  if (!series.empty()) series.front().name = fmt::format("{} seed{}", curves.size(), curves.size() == 1 ? "" : "s");
  apps::Series mean{.name = "mean", .color = "#c2571a", .width = 1.6, .dashes = "5 3"};
  apps::Series middle{.name = "interquartile mean", .width = 2.4};
  apps::Band interval{.name = fmt::format("{:g} % bootstrap interval", 100 * options.across.bootstrap.confidence)};
  for (const CurveEstimate& at : *across) {
    const auto x = static_cast<double>(at.steps);
    mean.points.push_back({x, at.mean});
    middle.points.push_back({x, at.interquartile_mean.value});
    interval.edges.push_back({x, at.interquartile_mean.low, at.interquartile_mean.high});
  }
  series.push_back(std::move(mean));
  series.push_back(std::move(middle));
  apps::LineChartOptions chart{.title = options.title,
                               .x_label = "environment steps",
                               .y_label = options.y_label,
                               .x_end = static_cast<double>(options.total_steps)};
  chart.bands.push_back(std::move(interval));
  if (options.threshold)
    chart.levels.push_back({.y = *options.threshold, .name = fmt::format("solved at {:g}", *options.threshold),
                            .color = "#2e7d4f"});
  return apps::line_chart_svg(chart, series);
}

}  // namespace rl
