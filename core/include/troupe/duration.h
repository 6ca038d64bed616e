// Time spans of the public interface. A duration is a std::chrono::nanoseconds; "no limit" is kForever, which every
// wait understands as "until it happens" (such waits end when what they wait for dies).
#pragma once
#include <chrono>
#include <cstdint>

namespace troupe {

using Duration = std::chrono::nanoseconds;

inline constexpr Duration kForever = Duration::max();
inline constexpr int kNoLimit = -1;       ///< a count without a limit
inline constexpr double kUnset = -1.0;    ///< a resource amount that takes its default

}  // namespace troupe
