// Tables whose values tests know by formulas, here and in formats_test.py.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "apps/datagen/formats/format.h"

namespace datagen_test {

inline constexpr std::uint64_t kShards = 3, kSamplesOfAShard = 7;

struct KnownTable {
  std::shared_ptr<const datagen::Schema> schema;
  /// In tables of at most four samples.
  std::function<void(datagen::SampleRange, const datagen::TableSink&)> generate;
};

/// "rows": a column of every type, a sample a row; "episodes": sample k has k % 3 + 1 steps.
[[nodiscard]] KnownTable known_table(std::string_view name);
[[nodiscard]] datagen::ShardInfo shard_info(std::uint64_t shard);

}  // namespace datagen_test
