// What the programs `rl` and `ppo` do with their arguments; each has a main of a few lines.
#pragma once

#include <span>

#include <troupe/options.h>

#include "apps/rl/program/command_line.h"

namespace rl {

/// The runtime's options for these arguments. After Ctrl-C a training run finishes the round that is open, so that it
/// can go on bit for bit, and a round of a large network on few cores takes longer than the runtime's ten seconds.
[[nodiscard]] troupe::RunOptions run_options(Program program, std::span<char* const> arguments);

/// What only `rl` has: `ppo` is built without the libraries of pictures.
struct MoreVerbs {
  int (*record)(const RecordCommand& command) = nullptr;
};

/// Their exit code. Inside of troupe::run.
[[nodiscard]] int run_program(Program program, std::span<char* const> arguments, const MoreVerbs& more = {});

}  // namespace rl
