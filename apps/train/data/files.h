// The bytes of a data file. Any thread.
#pragma once
#include <filesystem>
#include <string>

#include <troupe/result.h>

namespace troupe::train {

/// The whole file. Missing: NotFoundError; a folder, unreadable or empty: InvalidArgumentError. Each names the file.
Result<std::string> read_data_file(const std::filesystem::path& path);

}  // namespace troupe::train
