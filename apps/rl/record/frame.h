// A picture in memory: rows from the top, three bytes a pixel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rl {

struct Color {
  std::uint8_t red = 0, green = 0, blue = 0;
  friend bool operator==(const Color&, const Color&) = default;
};

struct Frame {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb = {};  ///< 3 * width * height bytes

  Frame() = default;
  Frame(int w, int h, Color color);

  [[nodiscard]] Color at(int x, int y) const {
    const std::uint8_t* pixel = &rgb[offset(x, y)];
    return {pixel[0], pixel[1], pixel[2]};
  }
  void set(int x, int y, Color color) {
    std::uint8_t* pixel = &rgb[offset(x, y)];
    pixel[0] = color.red, pixel[1] = color.green, pixel[2] = color.blue;
  }
  friend bool operator==(const Frame&, const Frame&) = default;

 private:
  [[nodiscard]] std::size_t offset(int x, int y) const {
    return 3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x));
  }
};

}  // namespace rl
