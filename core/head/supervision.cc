#include "core/head/supervision.h"

#include <algorithm>
#include <cmath>

namespace troupe::head {
namespace {
/// With no limit on restarts the history serves the back-off alone, which has long reached its maximum by then.
constexpr std::size_t kHistoryMax = 64;
}  // namespace

Duration backoff_delay(const Backoff& backoff, int attempt, Random& random) {
  double cap = static_cast<double>(std::max(backoff.max, Duration::zero()).count());
  double delay = static_cast<double>(backoff.initial.count()) * std::pow(backoff.factor, attempt);
  if (!(delay < cap)) delay = cap;  // also when pow overflowed
  delay *= 1 + std::clamp(backoff.jitter, 0.0, 1.0) * (2 * random.unit() - 1);
  return Duration(static_cast<Duration::rep>(std::clamp(delay, 0.0, 9e18)));
}

std::optional<Duration> RestartHistory::on_crash(Time now, const RestartRule& rule, Random& random) {
  if (rule.window != kForever) {
    std::erase_if(restarts_, [&](Time restart) { return now - restart >= rule.window; });
  }
  bool unlimited = rule.max_restarts < 0;
  if (!unlimited && restarts_.size() >= static_cast<std::size_t>(rule.max_restarts)) return std::nullopt;
  int attempt = static_cast<int>(restarts_.size());
  restarts_.push_back(now);
  if (unlimited && restarts_.size() > kHistoryMax) restarts_.erase(restarts_.begin());
  return backoff_delay(rule.backoff, attempt, random);
}

}  // namespace troupe::head
