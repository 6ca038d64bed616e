// The flags of the program `ppo`. Pure but for the text that --help and errors print.
//
// RCL-1  Wrong usage (unknown flag, value out of range, missing argument) is exit code 2 with a line on the error
//        stream; help is 0.
// RCL-2  With --resume the settings are the checkpoint's, except those given on the command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <variant>

#include "apps/rl/training/evaluate.h"
#include "apps/rl/ppo/config.h"

namespace rl {

struct TrainCommand {
  PpoConfig config;  // defaults where nothing was given
  std::optional<std::uint64_t> seed;
  std::optional<std::size_t> num_workers, num_envs, horizon;
  std::optional<std::int64_t> total_steps;
  bool keep_going = false;  // after the task is solved
  std::filesystem::path out = "ppo-out";
  std::filesystem::path json;        // default: OUT/result.json
  std::filesystem::path checkpoint;  // default: OUT/checkpoint.bin
  std::filesystem::path resume;      // empty: start anew

  /// The given settings over `base`.
  [[nodiscard]] PpoConfig over(PpoConfig base) const;
};

struct EvaluateCommand {
  std::filesystem::path policy;
  EvaluateOptions options;
  std::filesystem::path json;  // empty: none
};

struct ExitNow {
  int code;
};

using Command = std::variant<TrainCommand, EvaluateCommand, ExitNow>;

/// arguments[0] is the program's name.
[[nodiscard]] Command parse_command_line(std::span<char* const> arguments);

}  // namespace rl
