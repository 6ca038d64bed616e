// The training programs: one command in, one run out. `gpt` and `mlp` are two command lines (command_line.h) of it.
//
//   started as any program         troupe::run: a driver with rank actors (drive.h), elastic
//   started by mpirun or torchrun  every process is a rank (joined.h); rank 0 reports
//
// Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (143 by SIGTERM).
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "apps/train/program/job.h"
#include "apps/train/program/run_report.h"
#include "apps/train/program/settings.h"

namespace troupe::train {

struct AppCommand {
  std::string program = {};
  JobSettings job = {};
  std::filesystem::path json = {}, curve = {};
  bool overwrite = false;  ///< checkpoints of another run are removed
  SampleOptions sample = {};
};

struct ExitNow {
  int code = 0;
};

/// arguments[0] is the program's name.
using CommandLine = std::variant<AppCommand, ExitNow> (*)(std::span<char* const> arguments);

int train_main(int argc, char** argv, CommandLine parse);

/// The part of check_command that every process must ask for itself: whether there is such a model for such a device. A
/// GPU is not looked for.
Status check_device(const AppCommand& command);
/// Before minutes of work, not after them: device, folders, checkpoints, settings. Errors name the flag.
Status check_command(const AppCommand& command);
/// --resume without --decay-steps keeps the schedule of the run that goes on: more --steps do not make it another one.
/// Before the check.
void keep_schedule(RunSettings& run);
/// After the check: --overwrite.
void remove_checkpoints(const AppCommand& command);

/// Picture, result and closing lines; of a --resume that was refused only the error, and no file is touched. Returns
/// the exit code.
int finish(const AppCommand& command, RunReport& report, RunEnd end);

/// The place that mpirun or torchrun has given this process; none: nobody has. InvalidArgumentError for half of one.
struct LaunchedRank {
  int rank = 0, size = 1;
  std::string job = {};  ///< what tells this start from another one; may be empty
};
Result<std::optional<LaunchedRank>> rank_from_environment();

}  // namespace troupe::train
