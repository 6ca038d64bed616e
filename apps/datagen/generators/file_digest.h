// Digest of a file that decides what is generated: a policy, a checkpoint (GEN-3).
//
// Any thread.
#pragma once

#include <filesystem>

#include <troupe/result.h>

#include "apps/datagen/files/sha256.h"

namespace datagen {

/// Of all of its bytes. NotFoundError when it is not there, RuntimeEnvError when it cannot be read.
[[nodiscard]] troupe::Result<Digest> file_sha256(const std::filesystem::path& path);

}  // namespace datagen
