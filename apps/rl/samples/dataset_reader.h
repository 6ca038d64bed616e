// Reads data sets of other kinds than demonstrations' own files. The library of rl knows none: a program that has such
// a reader says so, in main.
//
//   int main(int argc, char** argv) {
//     rl::set_dataset_reader(&datagen::read_demonstrations);
//     return troupe::run(argc, argv, &driver);
//   }
//
// Any thread, once it is set.
#pragma once

#include <filesystem>

#include <troupe/result.h>

#include "apps/rl/samples/demonstrations.h"

namespace rl {

/// What it gives passes check_demonstrations.
using DatasetReader = troupe::Result<Demonstrations> (*)(const std::filesystem::path& folder);

void set_dataset_reader(DatasetReader reader);
/// RuntimeEnvError: this program has none.
[[nodiscard]] troupe::Result<Demonstrations> read_dataset(const std::filesystem::path& folder);

}  // namespace rl
