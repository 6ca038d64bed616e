// What several generators draw: a number between two bounds that the user chooses.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include <troupe/result.h>

#include "apps/common/settings/setting.h"
#include "apps/datagen/random/stream.h"

namespace datagen {

struct Bounds {
  double low = 0, high = 1;
  [[nodiscard]] double draw(Stream& stream) const { return low + (high - low) * stream.uniform(); }
};

/// Two settings, `name`_min and `name`_max.
inline void add_bounds(std::vector<apps::Setting>& settings, const std::string& name, const std::string& what,
                       Bounds& bounds, double least, double most) {
  settings.push_back({.name = name + "_min", .help = what + ": at least", .value = &bounds.low, .least = least,
                      .most = most});
  settings.push_back({.name = name + "_max", .help = what + ": at most", .value = &bounds.high, .least = least,
                      .most = most});
}

/// InvalidArgumentError when they cross.
[[nodiscard]] inline troupe::Status check_bounds(const std::string& name, const Bounds& bounds) {
  if (bounds.low <= bounds.high) return {};
  return troupe::InvalidArgumentError(
      fmt::format("{}_min is {}, above {}_max, {}", name, bounds.low, name, bounds.high));
}

}  // namespace datagen
