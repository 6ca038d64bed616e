// Arrays as NumPy's .npy files (version 1.0). Pure; any thread.
//
// NPY-1  The array begins at a multiple of 64 bytes, as NumPy's own files have it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "apps/datagen/table/schema.h"

namespace datagen {

/// What stands before the numbers of an array of this shape, in C order; `type` is a number's.
[[nodiscard]] std::string npy_header(Type type, std::span<const std::size_t> shape);

}  // namespace datagen
