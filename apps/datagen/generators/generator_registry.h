// Generators by name: ours, and those that a program registers.
//
//   int main(int argc, char** argv) {
//     datagen::register_generator(spirals()).value();   // in main, so that worker processes have it too
//     return troupe::run(argc, argv, &driver);
//   }
//
// Any thread.
//
// GRG-1  A name is registered once; another time is an InvalidArgumentError.
// GRG-2  An unknown name is a NotFoundError with the nearest one and all there are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <troupe/result.h>

#include "apps/datagen/generators/generator.h"

namespace datagen {

troupe::Status register_generator(GeneratorKind kind);
[[nodiscard]] troupe::Result<GeneratorKind> find_generator(std::string_view name);
/// Sorted by name.
[[nodiscard]] std::vector<GeneratorKind> generator_kinds();

}  // namespace datagen
