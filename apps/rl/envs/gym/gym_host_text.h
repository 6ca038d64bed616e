// The text of gym_host.py, which the build compiles in (apps/rl/CMakeLists.txt).
#pragma once

#include <string_view>

namespace rl {

[[nodiscard]] std::string_view gym_host_text();

}  // namespace rl
