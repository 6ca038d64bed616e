// Schedules: numbers that change while a run goes on. Plain values; any thread.
#pragma once

#include <cstdint>

namespace rl {

/// A value that falls linearly with the steps that its user counts, and then stays.
struct LinearDecay {
  double first = 1;
  double last = 1;
  std::int64_t over_steps = 100'000;

  [[nodiscard]] double at(std::int64_t steps) const;
  friend bool operator==(const LinearDecay&, const LinearDecay&) = default;
};

}  // namespace rl
