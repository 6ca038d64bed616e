// Pictures as PNG files, by libpng with fixed settings: 8 bits, grey or RGB, not interlaced. Pure; any thread.
//
// PNF-1  The bytes are a function of the picture and the version of libpng and zlib.
// PNF-2  In a build without libpng it is a RuntimeEnvError that names the package.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <troupe/result.h>

namespace datagen {

/// Rows from the top, 1 or 3 bytes a pixel.
struct Picture {
  std::size_t width = 0, height = 0, channels = 3;
  std::span<const std::uint8_t> pixels = {};
};

/// "1.6.39". PNF-2.
[[nodiscard]] troupe::Result<std::string> png_library_version();
/// InvalidArgumentError for a picture without pixels, or with another number of bytes than its size says.
[[nodiscard]] troupe::Result<std::string> encode_png(const Picture& picture);

}  // namespace datagen
