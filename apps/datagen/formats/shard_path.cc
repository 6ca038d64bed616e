#include "apps/datagen/formats/shard_path.h"

#include <algorithm>

#include <fmt/format.h>

namespace datagen {

std::string shard_path(const ShardInfo& shard, std::string_view stem, std::string_view extension) {
  const std::size_t digits = std::max<std::size_t>(5, fmt::formatted_size("{}", shard.count));
  return fmt::format("data/{}-{:0{}}-of-{:0{}}.{}", stem, shard.index, digits, shard.count, digits, extension);
}

}  // namespace datagen
