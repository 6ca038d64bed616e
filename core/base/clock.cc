#include "core/base/clock.h"

#include "core/base/check.h"

namespace troupe {

void ManualClock::advance(Duration by) {
  TROUPE_CHECK(by >= Duration::zero(), "CLK-1: time does not go back");
  nanoseconds_.fetch_add(by.count(), std::memory_order_relaxed);
}

}  // namespace troupe
