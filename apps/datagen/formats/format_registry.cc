#include "apps/datagen/formats/format_registry.h"

#include <map>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/common/nearest_name.h"

namespace datagen {
namespace {

struct FormatRegistry {
  std::mutex mutex;
  std::map<std::string, FormatKind, std::less<>> kinds;
};
FormatRegistry& formats() {
  static FormatRegistry all;
  return all;
}

}  // namespace

troupe::Status register_format(FormatKind kind) {
  if (kind.name.empty() || !kind.options)
    return troupe::InvalidArgumentError("a format has a name, and makes its options");
  const std::lock_guard lock(formats().mutex);
  std::string name = kind.name;
  if (!formats().kinds.try_emplace(name, std::move(kind)).second)
    return troupe::InvalidArgumentError(fmt::format("there is a format called '{}' already", name));  // FGR-1
  return {};
}

troupe::Result<FormatKind> find_format(std::string_view name) {
  const std::lock_guard lock(formats().mutex);
  if (const auto found = formats().kinds.find(name); found != formats().kinds.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, kind] : formats().kinds) names.push_back(known);
  return troupe::NotFoundError(fmt::format("no format is called '{}'; did you mean '{}'? There are: {}", name,
                                           apps::nearest_name(name, names), fmt::join(names, ", ")));
}

std::vector<FormatKind> format_kinds() {
  const std::lock_guard lock(formats().mutex);
  std::vector<FormatKind> all;
  for (const auto& [name, kind] : formats().kinds) all.push_back(kind);
  return all;
}

}  // namespace datagen
