// The flags of `datagen` and of programs like it. Pure but for the text that --help and errors print.
//
//   datagen run --generator NAME --format NAME --samples N --out DIR ...
//   datagen resume DIR     datagen verify DIR     datagen show DIR     datagen plan ...     datagen list
//
// Settings of the chosen generator and format are flags: --learning-rate for learning_rate, and for one that is true
// or false --shuffle and --no-shuffle. Where both have a setting of one name, the format's has the format in front:
// --jsonl-level; so has one whose name is a flag of ours: --blobs-seed.
//
//   defaults ◀── --config FILE ◀── flags        the right one wins
//
// DCL-1  Wrong usage (unknown flag, value out of range, missing argument) is exit code 2 with a line on the error
//        stream, which names the nearest flag; help is 0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <variant>

#include "apps/common/settings/setting.h"
#include "apps/datagen/config/job.h"
#include "apps/datagen/run/dataset_run.h"

namespace datagen {

struct RunCommand {
  JobChoices choices;
  std::filesystem::path out;
  std::string name;             // of the data set; empty: its folder's
  RunSettings settings;
};

struct PlanCommand {
  JobChoices choices;
};

struct ResumeCommand {
  std::filesystem::path out;
  RunSettings settings;
};

struct VerifyCommand {
  std::filesystem::path out;
  std::uint64_t regenerate = 3;
  bool remove_bad = false;
};

struct ShowCommand {
  std::filesystem::path out;
  bool json = false;
};

struct ListCommand {};

struct ExitNow {
  int code;
};

using Command =
    std::variant<RunCommand, PlanCommand, ResumeCommand, VerifyCommand, ShowCommand, ListCommand, ExitNow>;

/// A line about a setting: what it is, and in brackets its value, where it has one.
[[nodiscard]] std::string help_of(const apps::Setting& setting);

/// arguments[0] is the program's name.
[[nodiscard]] Command parse_command_line(std::span<char* const> arguments);

}  // namespace datagen
