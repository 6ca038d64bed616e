#include "objectstore/arena/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

namespace troupe::store {
namespace {

constexpr std::uint64_t kNoLimit = ~std::uint64_t(0);

/// The names of one version's files.
struct Names {
  const char* limit;
  const char* current;
  const char* cache[3];  ///< lines of memory.stat: what the kernel would drop
};
constexpr Names kVersion2{"memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}};
constexpr Names kVersion1{"memory.limit_in_bytes",
                          "memory.usage_in_bytes",
                          {"total_inactive_file", "total_active_file", "total_slab_reclaimable"}};

/// A number in a file of one line, or nothing ("max", no such file).
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

std::uint64_t reclaimable(const std::string& folder, const Names& names) {
  std::uint64_t sum = 0, value = 0;
  std::ifstream file(folder + "/memory.stat");
  for (std::string name; file >> name >> value;) {
    if (std::find(std::begin(names.cache), std::end(names.cache), name) != std::end(names.cache)) sum += value;
  }
  return sum;
}

std::uint64_t available_in_group(const std::string& folder, const Names& names) {
  const auto limit = number_in(folder + "/" + names.limit), current = number_in(folder + "/" + names.current);
  if (!limit || !current) return kNoLimit;
  const std::uint64_t used = *current - std::min(*current, reclaimable(folder, names));
  return *limit > used ? *limit - used : 0;
}

/// The group at this path ("/a/b") and those above it, up to the mount's root.
std::uint64_t available_in_groups(const std::string& mount, std::string path, const Names& names) {
  std::uint64_t least = kNoLimit;
  while (path.ends_with('/')) path.pop_back();
  for (;; path.erase(path.rfind('/'))) {
    least = std::min(least, available_in_group(mount + path, names));
    if (path.rfind('/') == std::string::npos) return least;
  }
}

/// Is "memory" among the controllers of a line of version 1 ("5:cpu,memory:/path")?
bool names_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "memory") return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

std::uint64_t machine_memory_available(const MemoryFiles& files) {
  std::uint64_t available = kNoLimit;
  std::ifstream meminfo(files.meminfo);
  for (std::string line; std::getline(meminfo, line);) {
    if (line.starts_with("MemAvailable:")) available = std::stoull(line.substr(13)) * 1024;
  }
  std::ifstream cgroups(files.own_cgroups);
  for (std::string line; std::getline(cgroups, line);) {  // "ID:controllers:/path"
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) available = std::min(available, available_in_groups(files.mount, path, kVersion2));
    else if (names_memory(controllers))
      available = std::min(available, available_in_groups(files.mount_v1, path, kVersion1));
  }
  return available;
}

}  // namespace troupe::store
