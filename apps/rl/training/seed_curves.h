// Learning curves of several seeds taken together: mean, interquartile mean and its bootstrap interval
// (statistics.h) over environment steps. Pure.
//
// RSC-1  Curves are compared at the same steps, evenly spaced, by linear interpolation between their points, and only
//        where every seed has come to: from the latest first point to the earliest last one. Nothing is made up for a
//        seed that stopped early.
// RSC-2  At each of these steps the interval is that of one task with a run for each seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/training/statistics.h"
#include "apps/rl/training/training_log.h"

namespace rl {

struct SeedCurve {
  std::uint64_t seed = 0;
  std::vector<CurvePoint> points = {};  ///< by step, upwards
};

struct CurveEstimate {
  std::int64_t steps = 0;
  double mean = 0;
  Estimate interquartile_mean = {};
};

struct AcrossSeedsOptions {
  std::size_t points = 200;  ///< at most: steps are whole
  BootstrapOptions bootstrap = {.repetitions = 2'000};
};

/// Empty where no step is common to all. InvalidArgumentError for points that do not go upwards or are not finite, and
/// as of statistics.h.
[[nodiscard]] troupe::Result<std::vector<CurveEstimate>> across_seeds(std::span<const SeedCurve> curves,
                                                                      const AcrossSeedsOptions& options);

}  // namespace rl
