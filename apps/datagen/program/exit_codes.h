// The exit codes of the program, as --help lists them.
#pragma once

namespace datagen {

inline constexpr int kExitFailed = 1, kExitUsage = 2, kExitInterrupted = 130;

}  // namespace datagen
