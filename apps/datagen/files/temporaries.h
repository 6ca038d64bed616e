// The files that dead attempts at shards left: `.<name>.<epoch>.<attempt>.tmp` (shard_file.h).
//
// Any thread.
//
// TMP-1  Nothing else than files of that pattern is removed, and only those of epochs up to the one that is given.
// TMP-2  Files that go beside shards (result.json, those of a format) are written by apps::write_file, which leaves
//        `<name>.tmp.<process>` when it is killed.
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

/// TMP-2, whoever's it is: for who begins a run. A missing folder has none.
troupe::Status sweep_asides(const std::set<std::filesystem::path>& folders);

}  // namespace datagen
