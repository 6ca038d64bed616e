// The exit codes of the programs, as --help lists them.
#pragma once

namespace rl {

inline constexpr int kExitFailed = 1, kExitUsage = 2, kExitNotSolved = 3, kExitInterrupted = 130;

}  // namespace rl
