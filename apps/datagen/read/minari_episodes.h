// Episodes of a Minari data set: words in metadata.json, arrays in HDF5. One thread a call; errors are thrown.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "apps/rl/samples/demonstrations.h"

namespace datagen {

/// Episodes [begin, end) are in `file`.
struct EpisodesFile {
  std::filesystem::path file;
  std::uint64_t begin = 0, end = 0;
};

/// `folder`: with metadata.json. No files: all of main_data.hdf5, as minari itself reads it. InvalidArgumentError for a
/// data set that is not of HDF5, or has observations or actions of several arrays.
[[nodiscard]] rl::Demonstrations minari_episodes(const std::filesystem::path& folder,
                                                 std::span<const EpisodesFile> files = {});

}  // namespace datagen
