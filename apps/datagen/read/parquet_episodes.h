// Episodes in Parquet files, a step a row: the columns obs, action, reward, terminated and truncated; spaces and
// environment in the files' key-value metadata. One thread a call; errors are thrown.
#pragma once

#include <filesystem>
#include <span>

#include "apps/rl/samples/demonstrations.h"

namespace datagen {

/// In this order. InvalidArgumentError: they hold no episodes.
[[nodiscard]] rl::Demonstrations parquet_episodes(std::span<const std::filesystem::path> files);

}  // namespace datagen
