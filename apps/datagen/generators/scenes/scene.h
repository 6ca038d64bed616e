// Scene: solids on a chequered floor under one light, seen by one camera, as signed distances.
//
//   distance(point) < 0 inside, > 0 outside: a sphere of that radius around the point holds nothing
//
// Plain values; any thread.
//
// SCD-1  A scene is a function of its stream. Solids stand on the floor and do not touch each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "apps/datagen/generators/scenes/vector3.h"
#include "apps/datagen/random/stream.h"

namespace datagen {

enum class Shape : std::uint8_t { kSphere, kBox, kCylinder };
inline constexpr std::size_t kShapes = 3;
/// "sphere", "box", "cylinder".
[[nodiscard]] std::string_view name_of(Shape shape);

struct Solid {
  Shape shape = Shape::kSphere;
  Vector3 centre = {};
  float size = 0.5F;              // half of its height; a sphere's radius
  float cosine = 1, sine = 0;     // of its turn around the vertical
  Vector3 color = {};             // 0 to 1
  /// The distance of a point from its surface, negative inside.
  [[nodiscard]] float distance(Vector3 point) const;
};

struct Camera {
  Vector3 eye = {}, forward = {}, right = {}, up = {};
};

struct Scene {
  std::vector<Solid> solids;
  Camera camera;
  Vector3 to_light = {};
};

/// With 1 to `solids` of them.
[[nodiscard]] Scene draw_scene(Stream stream, std::uint64_t solids);

}  // namespace datagen
