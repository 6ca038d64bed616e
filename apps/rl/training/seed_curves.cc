#include "apps/rl/training/seed_curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace rl {
namespace {

troupe::Status check_curve(const SeedCurve& curve) {
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const CurvePoint& point : curve.points) {
    if (point.steps <= last || !std::isfinite(point.mean_return))
      return troupe::InvalidArgumentError("the curve of seed " + std::to_string(curve.seed) +
                                          " does not go upwards in steps, or is not finite, at step " +
                                          std::to_string(point.steps));
    last = point.steps;
  }
  return {};
}

// `steps` is within the curve.
double value_at(const std::vector<CurvePoint>& points, std::int64_t steps) {
  const auto after = std::ranges::lower_bound(points, steps, {}, &CurvePoint::steps);
  if (after->steps == steps) return after->mean_return;
  const CurvePoint& before = *(after - 1);
  const double share = static_cast<double>(steps - before.steps) / static_cast<double>(after->steps - before.steps);
  return before.mean_return + share * (static_cast<double>(after->mean_return) - before.mean_return);
}

std::vector<std::int64_t> common_steps(std::span<const SeedCurve> curves, std::size_t count) {
  std::int64_t first = std::numeric_limits<std::int64_t>::min(), last = std::numeric_limits<std::int64_t>::max();
  for (const SeedCurve& curve : curves) {
    if (curve.points.empty()) return {};
    first = std::max(first, curve.points.front().steps);
    last = std::min(last, curve.points.back().steps);
  }
  std::vector<std::int64_t> steps;
  if (curves.empty() || first > last || count == 0) return steps;
  const double gap = count > 1 ? static_cast<double>(last - first) / static_cast<double>(count - 1) : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t step = i + 1 == count ? last : first + std::llround(gap * static_cast<double>(i));
    if (steps.empty() || step > steps.back()) steps.push_back(step);
  }
  return steps;
}

}  // namespace

troupe::Result<std::vector<CurveEstimate>> across_seeds(std::span<const SeedCurve> curves,
                                                        const AcrossSeedsOptions& options) {
  for (const SeedCurve& curve : curves)
    if (const troupe::Status checked = check_curve(curve); !checked.ok()) return checked.error_ptr();
  std::vector<CurveEstimate> out;
  for (const std::int64_t steps : common_steps(curves, options.points)) {
    ScoreMatrix scores{.runs = curves.size(), .tasks = 1};
    for (const SeedCurve& curve : curves) scores.values.push_back(value_at(curve.points, steps));
    const troupe::Result<Estimate> middle = estimate(Aggregate::kInterquartileMean, scores, options.bootstrap);
    if (!middle.ok()) return middle.error_ptr();
    out.push_back({.steps = steps, .mean = aggregate(Aggregate::kMean, scores), .interquartile_mean = *middle});
  }
  return out;
}

}  // namespace rl
