// scenes: rendered pictures of spheres, boxes and cylinders, with what a detector should find in them.
//
//   image     uint8 [height][width][3]
//   depth     float32 [height][width]: metres from the camera, 0: sky
//   boxes     JSON: [{"class": 1, "name": "box", "x": 10, "y": 12, "width": 20, "height": 18, "pixels": 233}, ...]:
//             pixels of the picture, of each solid that is seen at all, from left to right
//   solids    int32: how many those are
//
// SCE-1  A picture is a function of settings, seed and its number, the same on every processor (RAY-1).
#pragma once

#include "apps/datagen/generators/generator.h"

namespace datagen {

[[nodiscard]] GeneratorKind scenes();

}  // namespace datagen
