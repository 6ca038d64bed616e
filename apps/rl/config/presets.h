// Presets: settings that were found to be good for an algorithm on an environment, by name. They are the files of
// apps/rl/presets, compiled in: an installed program needs none of them beside it.
//
// Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

namespace rl {

/// Sorted.
[[nodiscard]] const std::vector<std::string>& preset_names();
/// NotFoundError with the nearest name for one that there is not.
[[nodiscard]] troupe::Result<boost::json::object> preset(const std::string& name);

}  // namespace rl
