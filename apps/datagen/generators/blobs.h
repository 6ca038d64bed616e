// blobs: samples of so many random bytes with a class: what measures how fast files are made of samples that do not
// compress.
//
//   data     bytes
//   class    int32
//
// BLB-1  A sample's bytes are its stream's words, little end first; its class is a draw of another stream.
#pragma once

#include "apps/datagen/generators/generator.h"

namespace datagen {

[[nodiscard]] GeneratorKind blobs();

}  // namespace datagen
