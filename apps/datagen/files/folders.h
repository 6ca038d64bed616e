// Folders of a data set. Any thread, any process.
#pragma once

#include <filesystem>

#include <troupe/result.h>

namespace datagen {

/// Makes it and what is missing above it; what it makes has its name on disk then. A folder that is there stays.
/// RuntimeEnvError: it cannot be made, or not be synced.
troupe::Status make_folder(const std::filesystem::path& folder);

}  // namespace datagen
