// Where RunOptions come from: flag over environment over struct. The only place that reads the variables of RunOptions.
#pragma once
#include <string>
#include <vector>

#include <troupe/options.h>
#include <troupe/result.h>

namespace troupe::worker {

struct ParsedRun {
  RunOptions options;
  std::vector<char*> arguments;  // without Troupe's own flags; program name first
  bool help = false;
};

/// InvalidArgumentError names the flag or variable that does not parse, or a --troupe- flag that is none.
Result<ParsedRun> parse_run(int argc, char** argv, const RunOptions& defaults);
/// What --troupe-help prints.
std::string run_help();

}  // namespace troupe::worker
