// What the programs `rl` and `ppo` do with their arguments; each has a main of a few lines.
#pragma once

#include <span>

#include "apps/rl/program/command_line.h"

namespace rl {

/// What only `rl` has: `ppo` is built without the libraries of pictures.
struct MoreVerbs {
  int (*record)(const RecordCommand& command) = nullptr;
};

/// Their exit code. Inside of troupe::run.
[[nodiscard]] int run_program(Program program, std::span<char* const> arguments, const MoreVerbs& more = {});

}  // namespace rl
