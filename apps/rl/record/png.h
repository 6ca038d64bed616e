// A frame as a PNG file (RGB, 8 bits, not interlaced), compressed by zlib. Pure; any thread.
#pragma once

#include <string>

#include <troupe/result.h>

#include "apps/rl/record/frame.h"

namespace rl {

/// The bytes of the file. InvalidArgumentError for a frame without pixels.
[[nodiscard]] troupe::Result<std::string> png_bytes(const Frame& frame);

}  // namespace rl
