// The flags of the programs `rl` and `ppo`. Pure but for the text that --help and errors print.
//
//   rl train --algo ppo --env Acrobot-v1 ...     rl evaluate POLICY     rl record POLICY     rl collect POLICY
//   rl list
//   ppo ...                                      ppo evaluate POLICY    (as rl train, with defaults for CartPole)
//
// Every setting of a run (config/run_config.h) is a flag: --learning-rate for learning_rate, and for one that is true
// or false --stop-when-solved and --no-stop-when-solved. Which settings there are depends on the algorithm.
//
// With --seeds, --resume names the folder of an earlier --seeds, whose seeds go on, and OUT is that folder.
//
//   the algorithm's defaults ◀── --preset ◀── --config FILE ◀── flags        the right one wins
//
// RCL-1  Wrong usage (unknown flag, value out of range, missing argument) is exit code 2 with a line on the error
//        stream, which names the nearest flag; help is 0.
// RCL-2  With --resume the settings are the checkpoint's, except those given on the command line or in --config.
//        Another algorithm than the checkpoint's is wrong usage. With --seeds this holds of each seed that has a
//        checkpoint; the folder's config.yaml is for those that have none.
// RCL-3  A Python that a file names, --config or the config.yaml of a folder of --seeds, is one of NPG-1, and modules
//        of the working folder are not looked for because of a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <boost/json.hpp>

#include "apps/rl/config/run_config.h"
#include "apps/rl/training/evaluate.h"

namespace rl {

/// From Ctrl-C to the end of a training run.
inline constexpr std::chrono::minutes kGrace{2};

struct TrainCommand {
  RunConfig config;            // defaults and what was given
  boost::json::object given;   // what the preset, the file and the flags say
  boost::json::object typed;   // of that, what no file says
  boost::json::object changes;  // and what the folder of --seeds --resume does not say
  std::filesystem::path out = "rl-out";
  std::filesystem::path json;        // default: OUT/result.json
  std::filesystem::path checkpoint;  // default: OUT/checkpoint.bin
  std::filesystem::path resume;      // empty: start anew
  bool tensorboard = true;
  bool keep_replay = true;           // in checkpoints
  std::uint64_t max_failures = 3;    // deaths after which it goes on from its last checkpoint
  bool end_with_input = false;       // as by Ctrl-C, when standard input, a pipe, ends
  std::uint64_t seeds = 0;           // 0: one run; else so many, from config.seed on, each in OUT/seed-S (seeds.h)
  std::uint64_t parallel = 0;        // of them, so many at a time
  // For the rounds that are open at Ctrl-C, and their checkpoints; then they are killed. Less than kGrace.
  std::chrono::duration<double> stop_deadline = kGrace - std::chrono::seconds(5);
  std::vector<std::string> verb = {};  // how this program was called to train: its name, "train"

  /// What was given over `base`. InvalidArgumentError for another algorithm, or a setting that it does not have, or
  /// what RCL-3 refuses.
  [[nodiscard]] troupe::Result<RunConfig> over(RunConfig base) const;
};

struct EvaluateCommand {
  std::filesystem::path policy;
  EvaluateOptions options;
  std::filesystem::path json;  // empty: none
};

struct RecordCommand {
  std::filesystem::path policy;
  std::filesystem::path out = "recording.gif";  // another name than *.gif: a folder of PNG files
  std::size_t episodes = 1;
  std::uint64_t seed = 10'000;  // episode i starts from seed + i
  double frames_per_second = 30;
  std::size_t frames_max = 10'000;
};

struct CollectCommand {
  std::filesystem::path policy;
  std::filesystem::path out = "demonstrations.safetensors";
  std::size_t episodes = 50;
  std::uint64_t seed = 20'000;  // episode i starts from seed + i
};

struct ListCommand {};

struct ExitNow {
  int code;
};

using Command = std::variant<TrainCommand, EvaluateCommand, RecordCommand, CollectCommand, ListCommand, ExitNow>;

enum class Program { kRl, kPpo };

/// arguments[0] is the program's name.
[[nodiscard]] Command parse_command_line(Program program, std::span<char* const> arguments);

}  // namespace rl
