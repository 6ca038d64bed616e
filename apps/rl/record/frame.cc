#include "apps/rl/record/frame.h"

namespace rl {

Frame::Frame(int w, int h, Color color)
    : width(w), height(h), rgb(3 * static_cast<std::size_t>(w) * static_cast<std::size_t>(h)) {
  for (std::size_t i = 0; i < rgb.size(); i += 3) rgb[i] = color.red, rgb[i + 1] = color.green, rgb[i + 2] = color.blue;
}

}  // namespace rl
