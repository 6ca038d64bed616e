// ShardRecord: what is known of a shard that is done. Plain value; it is also sent.
#pragma once

#include <cstdint>
#include <string>

#include "apps/datagen/files/sha256.h"
#include "apps/datagen/generators/generator.h"

namespace datagen {

struct ShardRecord {
  std::string name = {};        ///< its file, below the folder of the data set
  SampleRange range = {};
  std::uint64_t rows = 0, bytes = 0;
  Digest sha256{};
  std::uint32_t attempt = 0;  ///< that made it
  friend bool operator==(const ShardRecord&, const ShardRecord&) = default;
};

/// Do they describe the same bytes? The attempt may differ.
[[nodiscard]] inline bool same_shard(const ShardRecord& a, const ShardRecord& b) {
  return a.name == b.name && a.range == b.range && a.rows == b.rows && a.bytes == b.bytes && a.sha256 == b.sha256;
}

}  // namespace datagen
