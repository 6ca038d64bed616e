#include "apps/datagen/generators/scenes/ray_marcher.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace datagen {
namespace {

constexpr float kFar = 30, kNear = 0.002F;  // a ray that is nearer than this to a surface is there
constexpr int kSteps = 160;
constexpr float kFocal = 1.7F;  // half of the picture's height is 1

struct Nearest {
  float distance = kFar;
  std::int16_t solid = kSky;
};

Nearest nearest(const Scene& scene, Vector3 point) {
  Nearest out{point.y, kFloor};
  for (std::size_t i = 0; i < scene.solids.size(); ++i)
    if (const float away = scene.solids[i].distance(point); away < out.distance)
      out = {away, static_cast<std::int16_t>(i)};
  return out;
}

struct Hit {
  float distance = 0;
  std::int16_t solid = kSky;
};

Hit march(const Scene& scene, Vector3 from, Vector3 along, float begin) {
  float at = begin;
  for (int step = 0; step < kSteps && at < kFar; ++step) {
    const Nearest found = nearest(scene, from + at * along);
    if (found.distance < kNear) return {at, found.solid};
    at += found.distance;
  }
  return {};
}

/// Of the surface: the slope of the distance.
Vector3 normal_at(const Scene& scene, Vector3 point, std::int16_t solid) {
  if (solid == kFloor) return {0, 1, 0};
  constexpr float kStep = 0.004F;
  const Solid& one = scene.solids[static_cast<std::size_t>(solid)];
  const auto slope = [&](Vector3 step) { return one.distance(point + step) - one.distance(point - step); };
  return unit({slope({kStep, 0, 0}), slope({0, kStep, 0}), slope({0, 0, kStep})});
}

Vector3 color_of(const Scene& scene, Vector3 point, std::int16_t solid) {
  if (solid != kFloor) return scene.solids[static_cast<std::size_t>(solid)].color;
  const bool dark = (static_cast<int>(std::floor(point.x)) + static_cast<int>(std::floor(point.z))) % 2 != 0;
  return dark ? Vector3{0.35F, 0.36F, 0.4F} : Vector3{0.75F, 0.74F, 0.7F};
}

Vector3 sky(Vector3 along) {
  const float height = std::clamp(along.y * 2 + 0.4F, 0.0F, 1.0F);
  return {0.85F - 0.45F * height, 0.9F - 0.3F * height, 0.95F};
}

Vector3 shade(const Scene& scene, Vector3 point, Vector3 along, const Hit& hit) {
  constexpr float kAmbient = 0.25F, kOffSurface = 0.02F;
  const Vector3 normal = normal_at(scene, point, hit.solid);
  float light = std::max(dot(normal, scene.to_light), 0.0F);
  if (light > 0 && march(scene, point + kOffSurface * normal, scene.to_light, 0).solid >= 0) light = 0;  // a shadow
  Vector3 color = (kAmbient + (1 - kAmbient) * light) * color_of(scene, point, hit.solid);
  if (light > 0 && hit.solid >= 0) {  // a highlight: the eighth power
    const Vector3 half = unit(scene.to_light - along);
    const float shine = std::max(dot(normal, half), 0.0F), second = shine * shine, fourth = second * second;
    color = color + 0.3F * fourth * fourth * fourth * fourth * Vector3{1, 1, 1};
  }
  const float fog = std::clamp(hit.distance / kFar, 0.0F, 1.0F);
  return (1 - fog) * color + fog * sky(along);
}

std::uint8_t level(float value) {
  // The square root stands in for the gamma of displays.
  return static_cast<std::uint8_t>(255 * std::sqrt(std::clamp(value, 0.0F, 1.0F)) + 0.5F);
}

}  // namespace

void render(const Scene& scene, const RenderOut& out) {
  const auto height = static_cast<float>(out.height), width = static_cast<float>(out.width);
  for (std::size_t row = 0; row < out.height; ++row)
    for (std::size_t column = 0; column < out.width; ++column) {
      const float u = (2 * static_cast<float>(column) + 1 - width) / height;
      const float v = (height - 2 * static_cast<float>(row) - 1) / height;
      const Camera& camera = scene.camera;
      const Vector3 along = unit(kFocal * camera.forward + u * camera.right + v * camera.up);
      const Hit hit = march(scene, camera.eye, along, 0);
      const Vector3 color =
          hit.solid == kSky ? sky(along) : shade(scene, camera.eye + hit.distance * along, along, hit);
      const std::size_t pixel = row * out.width + column;
      out.solid[pixel] = hit.solid;
      out.depth[pixel] = hit.solid == kSky ? 0 : hit.distance;  // RAY-2
      out.image[3 * pixel] = level(color.x), out.image[3 * pixel + 1] = level(color.y);
      out.image[3 * pixel + 2] = level(color.z);
    }
}

}  // namespace datagen
