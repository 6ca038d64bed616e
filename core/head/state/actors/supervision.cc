#include "core/head/state/actors/supervision.h"

#include <algorithm>

#include "core/base/backoff.h"

namespace troupe::head {
namespace {
/// With no limit on restarts the history serves the back-off alone, which has long reached its maximum by then.
constexpr std::size_t kHistoryMax = 64;
}  // namespace

std::optional<Duration> RestartHistory::on_crash(Time now, const RestartRule& rule, Random& random) {
  if (rule.window != kForever) {
    std::erase_if(restarts_, [&](Time restart) { return now - restart >= rule.window; });
  }
  bool unlimited = rule.max_restarts < 0;
  if (!unlimited && restarts_.size() >= static_cast<std::size_t>(rule.max_restarts)) return std::nullopt;
  const auto attempt = static_cast<std::uint32_t>(restarts_.size());
  restarts_.push_back(now);
  if (unlimited && restarts_.size() > kHistoryMax) restarts_.erase(restarts_.begin());
  return backoff_delay(rule.backoff, attempt, random.unit());
}

}  // namespace troupe::head
