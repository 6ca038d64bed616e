#include "apps/rl/record/draw_grid.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rl {
namespace {

// Pictures are enlarged, by a whole factor, to about this many pixels on their longer side.
constexpr std::size_t kLongSide = 400;

template <class CellColor>
Frame enlarged(const GridShape& shape, CellColor cell_color) {
  const std::size_t factor = std::max<std::size_t>(1, kLongSide / std::max(shape.height, shape.width));
  Frame frame(static_cast<int>(shape.width * factor), static_cast<int>(shape.height * factor), {});
  for (int y = 0; y < frame.height; ++y)
    for (int x = 0; x < frame.width; ++x) {
      const std::size_t row = static_cast<std::size_t>(y) / factor, column = static_cast<std::size_t>(x) / factor;
      frame.set(x, y, cell_color((row * shape.width + column) * shape.channels));
    }
  return frame;
}

std::uint8_t shade(double share) { return static_cast<std::uint8_t>(std::lround(255 * std::clamp(share, 0.0, 1.0))); }

}  // namespace

Color channel_color(std::size_t channel, std::size_t channels) {
  // D. A. Green, "A colour scheme for the display of astronomical intensity images", 2011, with its usual start 0.5,
  // -1.5 rotations and hue 1; `light` as seaborn spaces a palette: neither black nor white.
  const double light = static_cast<double>(channel + 1) / static_cast<double>(channels + 1);
  const double angle = 2 * std::numbers::pi * (0.5 / 3 - 1.5 * light);
  const double amplitude = light * (1 - light) / 2, c = std::cos(angle), s = std::sin(angle);
  return {shade(light + amplitude * (-0.14861 * c + 1.78277 * s)),
          shade(light + amplitude * (-0.29227 * c - 0.90649 * s)), shade(light + amplitude * (1.97294 * c))};
}

Frame draw_grid(const GridShape& shape, std::span<const std::uint8_t> cells) {
  return enlarged(shape, [&](std::size_t first) {
    for (std::size_t channel = shape.channels; channel > 0; --channel)
      if (cells[first + channel - 1] != 0) return channel_color(channel - 1, shape.channels);
    return Color{};
  });
}

Frame draw_image(const GridShape& shape, std::span<const std::uint8_t> pixels) {
  return enlarged(shape, [&](std::size_t first) {
    if (shape.channels == 3) return Color{pixels[first], pixels[first + 1], pixels[first + 2]};
    return Color{pixels[first], pixels[first], pixels[first]};
  });
}

}  // namespace rl
