// Formats by name: ours, and those that a program registers (in main, as generators are).
//
// Any thread.
//
// FGR-1  A name is registered once; another time is an InvalidArgumentError.
// FGR-2  An unknown name is a NotFoundError with the nearest one and all there are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <troupe/result.h>

#include "apps/datagen/formats/format.h"

namespace datagen {

troupe::Status register_format(FormatKind kind);
[[nodiscard]] troupe::Result<FormatKind> find_format(std::string_view name);
/// Sorted by name.
[[nodiscard]] std::vector<FormatKind> format_kinds();

}  // namespace datagen
