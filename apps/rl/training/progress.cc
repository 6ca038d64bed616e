#include "apps/rl/training/progress.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/common/progress.h"

namespace rl {

std::string progress_line(const ProgressView& view, int bar_width) {
  const double share =
      static_cast<double>(view.steps) / static_cast<double>(std::max<std::int64_t>(view.total_steps, 1));
  const double per_second = view.seconds > 0 ? static_cast<double>(view.steps_this_run) / view.seconds : 0;
  const auto left = static_cast<double>(std::max<std::int64_t>(view.total_steps - view.steps, 0));
  std::string line = apps::bar(share, bar_width) +
                     fmt::format("{}/{} steps  {} steps/s  return {:.1f}  length {:.1f}", apps::grouped(view.steps),
                                 apps::grouped(view.total_steps), apps::short_rate(per_second), view.mean_return,
                                 view.mean_length);
  for (const Metric& metric : view.metrics) line += fmt::format("  {} {:.3g}", metric.name, metric.value);
  return line + "  ETA " + (per_second > 0 ? apps::clock_time(left / per_second) : "-:--");
}

}  // namespace rl
