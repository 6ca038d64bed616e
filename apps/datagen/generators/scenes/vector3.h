// Three floats, with the few operations that a ray needs: additions, products, divisions and square roots alone, which
// every processor rounds alike.
#pragma once

#include <cmath>

namespace datagen {

struct Vector3 {
  float x = 0, y = 0, z = 0;
};

[[nodiscard]] inline Vector3 operator+(Vector3 a, Vector3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
[[nodiscard]] inline Vector3 operator-(Vector3 a, Vector3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
[[nodiscard]] inline Vector3 operator*(float s, Vector3 a) { return {s * a.x, s * a.y, s * a.z}; }
[[nodiscard]] inline float dot(Vector3 a, Vector3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
[[nodiscard]] inline Vector3 cross(Vector3 a, Vector3 b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
[[nodiscard]] inline float length(Vector3 a) { return std::sqrt(dot(a, a)); }
[[nodiscard]] inline Vector3 unit(Vector3 a) { return 1 / length(a) * a; }

}  // namespace datagen
