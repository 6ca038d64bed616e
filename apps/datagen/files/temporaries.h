// The files that dead attempts at shards left: `.<name>.<epoch>.<attempt>.tmp` (shard_file.h).
//
// Any thread.
//
// TMP-1  Nothing else than files of that pattern is removed, and only those of epochs up to the one that is given.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include <troupe/result.h>

namespace datagen {

/// The epoch in the name of such a file; none for another name.
[[nodiscard]] std::optional<std::uint64_t> epoch_of_temporary(std::string_view name);

/// Removes those of epochs up to `epoch` in these folders; how many they were. A missing folder has none.
troupe::Result<std::uint64_t> sweep_temporaries(const std::set<std::filesystem::path>& folders, std::uint64_t epoch);

}  // namespace datagen
