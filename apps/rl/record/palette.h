// The colors of a frame as a table of at most 256 and an index a pixel, as GIF wants it. Pure.
//
// PAL-1  A frame of at most 256 colors keeps them. Of one with more, every color loses its lowest bits, as few as
//        suffice.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/rl/record/frame.h"

namespace rl {

struct Indexed {
  std::vector<Color> colors = {};         ///< at most 256, in the order of the pixels
  std::vector<std::uint8_t> pixels = {};  ///< rows from the top
};

[[nodiscard]] Indexed indexed(const Frame& frame);

}  // namespace rl
