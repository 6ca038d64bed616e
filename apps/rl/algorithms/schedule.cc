#include "apps/rl/algorithms/schedule.h"

#include <algorithm>

namespace rl {

double LinearDecay::at(std::int64_t steps) const {
  const double passed =
      std::clamp(static_cast<double>(steps) / static_cast<double>(std::max<std::int64_t>(over_steps, 1)), 0.0, 1.0);
  return first + (last - first) * passed;
}

}  // namespace rl
