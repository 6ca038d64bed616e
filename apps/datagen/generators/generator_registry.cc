#include "apps/datagen/generators/generator_registry.h"

#include <map>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/common/nearest_name.h"

namespace datagen {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, GeneratorKind, std::less<>> kinds;
};
Registry& registry() {
  static Registry all;
  return all;
}

}  // namespace

troupe::Status register_generator(GeneratorKind kind) {
  if (kind.name.empty() || !kind.options)
    return troupe::InvalidArgumentError("a generator has a name, and makes its options");
  const std::lock_guard lock(registry().mutex);
  std::string name = kind.name;
  if (!registry().kinds.try_emplace(name, std::move(kind)).second)
    return troupe::InvalidArgumentError(fmt::format("there is a generator called '{}' already", name));  // GRG-1
  return {};
}

troupe::Result<GeneratorKind> find_generator(std::string_view name) {
  const std::lock_guard lock(registry().mutex);
  if (const auto found = registry().kinds.find(name); found != registry().kinds.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, kind] : registry().kinds) names.push_back(known);
  return troupe::NotFoundError(fmt::format("no generator is called '{}'; did you mean '{}'? There are: {}", name,
                                           apps::nearest_name(name, names), fmt::join(names, ", ")));
}

std::vector<GeneratorKind> generator_kinds() {
  const std::lock_guard lock(registry().mutex);
  std::vector<GeneratorKind> all;
  for (const auto& [name, kind] : registry().kinds) all.push_back(kind);
  return all;
}

}  // namespace datagen
