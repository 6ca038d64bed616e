// Errors of the system about files, as typed ones.
#pragma once

#include <filesystem>
#include <string>

#include <troupe/result.h>

namespace datagen {

/// From `code` (an errno): "`what` `path`: why". OutOfDiskError where there is no room (disk, quota, limit of the
/// file's size), else RuntimeEnvError.
[[nodiscard]] troupe::ErrorPtr file_error(int code, const std::string& what, const std::filesystem::path& path);

}  // namespace datagen
