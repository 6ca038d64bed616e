// The files of apps/rl/presets as text; made when the build is configured.
#pragma once

#include <span>
#include <string_view>

namespace rl {

struct PresetFile {
  std::string_view name, text;
};
[[nodiscard]] std::span<const PresetFile> preset_files();

}  // namespace rl
