// How long to wait before the next attempt. Pure: chance comes in.
#pragma once
#include <algorithm>
#include <cmath>

#include <troupe/options.h>

namespace troupe {

/// initial * factor^attempt, at most max, spread by +- jitter of itself; never below zero. `chance` is uniform in [0,
/// 1).
inline Duration backoff_delay(const Backoff& backoff, std::uint32_t attempt, double chance) {
  const double cap = static_cast<double>(std::max(backoff.max, Duration::zero()).count());
  double delay = static_cast<double>(backoff.initial.count()) * std::pow(backoff.factor, attempt);
  if (!(delay < cap)) delay = cap;  // also when pow overflowed
  delay *= 1 + std::clamp(backoff.jitter, 0.0, 1.0) * (2 * chance - 1);
  return Duration(static_cast<Duration::rep>(std::clamp(delay, 0.0, 9e18)));
}

}  // namespace troupe
