// Spans of time as sockets and messages want them.
#pragma once
#include <algorithm>
#include <chrono>
#include <string>

#include <troupe/options.h>

namespace troupe::net {

inline int to_ms(Duration span) {
  return int(std::clamp<std::int64_t>(span / std::chrono::milliseconds(1), 1, 1 << 30));
}
/// "5 s" or "4800 ms".
inline std::string seconds_text(Duration span) {
  const auto ms = span / std::chrono::milliseconds(1);
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace troupe::net
