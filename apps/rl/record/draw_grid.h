// Observations that are pictures already: grids of MinAtar's kind and images. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/rl/record/frame.h"

namespace rl {

struct GridShape {
  std::size_t height = 0, width = 0, channels = 0;
};

/// [height, width, channels] of zero and not zero: a square a cell, black where no channel is set, else in the color
/// of the highest one that is. The colors are those that MinAtar shows (matplotlib's "cubehelix", as many as
/// channels).
[[nodiscard]] Frame draw_grid(const GridShape& shape, std::span<const std::uint8_t> cells);
/// [height, width, 1 or 3] of 0 to 255: grey or red, green and blue.
[[nodiscard]] Frame draw_image(const GridShape& shape, std::span<const std::uint8_t> pixels);

/// The color of `channel` of `channels`.
[[nodiscard]] Color channel_color(std::size_t channel, std::size_t channels);

}  // namespace rl
