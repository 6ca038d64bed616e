#include "apps/datagen/generators/scenes/scene.h"

#include <algorithm>
#include <array>

namespace datagen {
namespace {

constexpr float kReach = 2.2F;  // solids stand within this of the middle
constexpr int kTries = 50;      // to find a place for one

float between(Stream& stream, float low, float high) { return low + (high - low) * stream.uniform_float(); }

/// A direction on the floor.
std::array<float, 2> turn(Stream& stream) {
  for (;;) {
    const float x = between(stream, -1, 1), z = between(stream, -1, 1), square = x * x + z * z;
    if (square > 0.01F && square <= 1) return {x / std::sqrt(square), z / std::sqrt(square)};
  }
}

/// A circle on the floor that holds it however it is turned.
float footprint(const Solid& solid) { return solid.shape == Shape::kBox ? 1.4143F * solid.size : solid.size; }

Solid draw_solid(Stream& stream) {
  Solid out;
  out.shape = static_cast<Shape>(stream.below(kShapes));
  out.size = between(stream, 0.35F, 0.7F);
  out.centre = {between(stream, -kReach, kReach), out.size, between(stream, -kReach, kReach)};
  const auto [cosine, sine] = turn(stream);
  out.cosine = cosine, out.sine = sine;
  out.color = {between(stream, 0.15F, 1), between(stream, 0.15F, 1), between(stream, 0.15F, 1)};
  return out;
}

bool has_room(const Solid& solid, const std::vector<Solid>& others) {
  return std::ranges::all_of(others, [&](const Solid& other) {
    const float dx = solid.centre.x - other.centre.x, dz = solid.centre.z - other.centre.z;
    const float apart = footprint(solid) + footprint(other);
    return dx * dx + dz * dz > apart * apart;
  });
}

Camera draw_camera(Stream& stream) {
  const auto [x, z] = turn(stream);
  const float away = between(stream, 5, 6.5F);
  Camera out;
  out.eye = {away * x, between(stream, 1.8F, 3.5F), away * z};
  out.forward = unit(Vector3{0, 0.4F, 0} - out.eye);
  out.right = unit(cross(out.forward, {0, 1, 0}));
  out.up = cross(out.right, out.forward);
  return out;
}

}  // namespace

std::string_view name_of(Shape shape) {
  static constexpr std::array<std::string_view, kShapes> kNames{"sphere", "box", "cylinder"};
  return kNames.at(static_cast<std::size_t>(shape));
}

float Solid::distance(Vector3 point) const {
  const Vector3 p = point - centre;
  if (shape == Shape::kSphere) return length(p) - size;
  float across = 0, along = std::abs(p.y) - size, third = -1;
  if (shape == Shape::kBox) {
    across = std::abs(cosine * p.x + sine * p.z) - size;
    third = std::abs(cosine * p.z - sine * p.x) - size;
  } else {
    across = std::sqrt(p.x * p.x + p.z * p.z) - size;
  }
  const float inside = std::min(std::max({across, along, third}), 0.0F);
  return inside + length({std::max(across, 0.0F), std::max(along, 0.0F), std::max(third, 0.0F)});
}

Scene draw_scene(Stream stream, std::uint64_t solids) {
  Scene out;
  out.camera = draw_camera(stream);
  const auto [x, z] = turn(stream);
  out.to_light = unit({x, between(stream, 0.8F, 2), z});
  const std::uint64_t wanted = 1 + stream.below(static_cast<std::uint32_t>(solids));
  for (int tries = 0; out.solids.size() < wanted && tries < kTries; ++tries) {
    const Solid solid = draw_solid(stream);
    if (has_room(solid, out.solids)) out.solids.push_back(solid);  // SCD-1
  }
  return out;
}

}  // namespace datagen
