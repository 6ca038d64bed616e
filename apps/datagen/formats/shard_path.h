// The name of a shard's file: "data/part-00007-of-00100.jsonl". Pure; any thread.
//
// SHP-1  The names of a data set's shards have one length, and their order as texts is the order of the shards.
#pragma once

#include <string>
#include <string_view>

#include "apps/datagen/formats/format.h"

namespace datagen {

/// `stem`: "part"; `extension`: "jsonl.zst".
[[nodiscard]] std::string shard_path(const ShardInfo& shard, std::string_view stem, std::string_view extension);

}  // namespace datagen
