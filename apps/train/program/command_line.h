// The flags of the programs `gpt` and `mlp`. Pure but for the text that --help and errors print.
//
// TCL-1  Wrong usage (unknown flag, value out of range, missing argument) is exit code 2 with a line on the error
//        stream; help is 0.
#pragma once
#include <span>
#include <variant>

#include "apps/train/program/app.h"

namespace troupe::train {

/// arguments[0] is the program's name.
std::variant<AppCommand, ExitNow> parse_gpt(std::span<char* const> arguments);
std::variant<AppCommand, ExitNow> parse_mlp(std::span<char* const> arguments);

}  // namespace troupe::train
