// What `troupe doctor` says about a machine: one line a check, with what to do where something is wrong.
//
// Thread rule: pure functions of the facts in machine.h.
//
// Invariants
//   DOC-1  Every check gives exactly one line, on every machine.
//   DOC-2  A line that is not ok says what to do. Only what keeps Troupe from working is a failure.
#pragma once
#include <string>
#include <vector>

#include "apps/cli/machine.h"

namespace troupe::cli {

enum class Level { kOk, kWarn, kFail };
const char* level_name(Level level);

struct Finding {
  std::string check;
  Level level = Level::kOk;
  std::string found;   ///< what is there
  std::string advice;  ///< what to do; empty when ok
};

std::vector<Finding> judge(const Machine& machine);

}  // namespace troupe::cli
