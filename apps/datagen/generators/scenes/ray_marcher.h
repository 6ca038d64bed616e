// RayMarcher: a picture of a scene, a ray a pixel: each goes ahead as far as the nearest surface allows, until it is
// there ("sphere tracing", Hart, 1996). One more ray from there to the light finds shadows.
//
// Pure; any thread.
//
// RAY-1  Pictures are the same on every processor: floats in additions, products, divisions and square roots alone.
// RAY-2  depth is the distance from the camera, 0 where there is only sky. solid is the index of what is seen there, or
//        kFloor or kSky; a bounding box is that of such pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/datagen/generators/scenes/scene.h"

namespace datagen {

inline constexpr std::int16_t kFloor = -1, kSky = -2;

struct RenderOut {
  std::size_t height = 0, width = 0;
  std::span<std::uint8_t> image;  // [height][width][3]
  std::span<float> depth;         // [height][width]
  std::span<std::int16_t> solid;  // [height][width]
};

void render(const Scene& scene, const RenderOut& out);

}  // namespace datagen
