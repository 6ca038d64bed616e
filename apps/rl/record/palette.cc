#include "apps/rl/record/palette.h"

#include <optional>
#include <unordered_map>

namespace rl {
namespace {

constexpr std::size_t kColorsMax = 256;

// None when there are too many colors whose lowest `dropped` bits do not count.
std::optional<Indexed> indexed_without(const Frame& frame, int dropped) {
  Indexed out;
  out.pixels.reserve(frame.rgb.size() / 3);
  const auto kept = static_cast<std::uint8_t>(0xff << dropped);
  std::unordered_map<std::uint32_t, std::uint8_t> index_of;
  for (std::size_t i = 0; i < frame.rgb.size(); i += 3) {
    const auto red = static_cast<std::uint8_t>(frame.rgb[i] & kept);
    const auto green = static_cast<std::uint8_t>(frame.rgb[i + 1] & kept);
    const auto blue = static_cast<std::uint8_t>(frame.rgb[i + 2] & kept);
    const std::uint32_t key = static_cast<std::uint32_t>(red) << 16 | static_cast<std::uint32_t>(green) << 8 | blue;
    auto found = index_of.find(key);
    if (found == index_of.end()) {
      if (out.colors.size() == kColorsMax) return std::nullopt;
      found = index_of.emplace(key, static_cast<std::uint8_t>(out.colors.size())).first;
      out.colors.push_back({red, green, blue});
    }
    out.pixels.push_back(found->second);
  }
  return out;
}

}  // namespace

Indexed indexed(const Frame& frame) {
  for (int dropped = 0;; ++dropped)  // with two bits a channel there are 64 colors: it ends
    if (std::optional<Indexed> out = indexed_without(frame, dropped)) return *std::move(out);
}

}  // namespace rl
