// Files that others made: opened and read without trust in what they are.
//
// IFL-1  Only a plain file is opened: not a pipe, on which reading would wait for ever, nor a device, which never ends.
// IFL-2  Memory is bounded by what the caller allows.
// Any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <troupe/result.h>

#include "apps/common/descriptor.h"

namespace apps {

/// To be read. NotFoundError: there is none; InvalidArgumentError: it is no plain file; RuntimeEnvError: the system's.
[[nodiscard]] troupe::Result<Descriptor> open_input(const std::filesystem::path& path);

/// All of it. Also InvalidArgumentError: it has more than `bytes_max`.
[[nodiscard]] troupe::Result<std::string> read_input(const std::filesystem::path& path, std::uint64_t bytes_max);

}  // namespace apps
