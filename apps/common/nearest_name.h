// The name that was probably meant, for messages about an unknown one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace apps {

/// Of `names` the one with the fewest letters to insert, drop or change (Levenshtein's distance), without regard to
/// upper and lower case; of several the first. Empty when there are no names.
[[nodiscard]] std::string nearest_name(std::string_view wanted, std::span<const std::string> names);

}  // namespace apps
