#include "apps/rl/config/presets.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/common/nearest_name.h"
#include "apps/rl/config/preset_files.h"
#include "apps/rl/config/setting.h"

namespace rl {

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const PresetFile& file : preset_files()) out.emplace_back(file.name);
    std::ranges::sort(out);
    return out;
  }();
  return names;
}

troupe::Result<boost::json::object> preset(const std::string& name) {
  for (const PresetFile& file : preset_files())
    if (file.name == name) return parse_yaml(std::string(file.text), "preset " + name);
  return troupe::NotFoundError(fmt::format("there is no preset '{}': did you mean '{}'?", name,
                                           apps::nearest_name(name, preset_names())));
}

}  // namespace rl
