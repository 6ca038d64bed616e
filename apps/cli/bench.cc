// bench: measures of this machine, by the programs that are installed with the command.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "apps/cli/verbs.h"

namespace troupe::cli {
namespace {

namespace fs = std::filesystem;

/// The measures: beside an installed command in ../lib/troupe/bench, in a build tree in ../bench/measures.
std::vector<fs::path> find_measures() {
  std::error_code error;
  const fs::path home = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  std::vector<fs::path> programs;
  for (const char* folder : {"lib/troupe/bench", "bench/measures"}) {
    for (const auto& entry : fs::directory_iterator(home / folder, error))
      if (::access(entry.path().c_str(), X_OK) == 0) programs.push_back(entry.path());
    if (!programs.empty()) break;
  }
  std::sort(programs.begin(), programs.end());
  return programs;
}

/// Its exit code; its rows go to our standard output.
int run_measure(const fs::path& program, std::vector<std::string> arguments) {
  std::string name = program.string();
  std::vector<char*> argv{name.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execv(name.c_str(), argv.data());
    ::_exit(127);
  }
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

void add_bench(CLI::App& app, Context& context) {
  struct Flags { std::string only; bool quick = false, json = false; };
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand("bench", "Measure calls, tasks and objects on this machine");
  verb->add_option("--only", flags->only, "Only rows whose name matches")->type_name("REGEX");
  verb->add_flag("--quick", flags->quick, "A tenth of the time");
  verb->add_flag("--json", flags->json, "Print JSON, one object a line");
  verb->callback([flags, &context] {
    std::vector<std::string> arguments;
    if (!flags->only.empty()) arguments.insert(arguments.end(), {"--only", flags->only});
    if (flags->quick) arguments.push_back("--quick");
    if (flags->json) arguments.push_back("--json");
    const std::vector<fs::path> programs = find_measures();
    if (programs.empty()) {
      std::fprintf(stderr, "troupe bench: no measures are installed; from the source folder: bench/run\n");
      context.code = kFailed;
    }
    for (const fs::path& program : programs) {
      const int code = run_measure(program, arguments);
      if (code != 0) {
        std::fprintf(stderr, "troupe bench: %s ended with code %d\n", program.filename().c_str(), code);
        context.code = code == 2 ? kUsage : kFailed;
      }
      if (code == 2) return;  // a wrong --only is wrong for all
    }
  });
}

}  // namespace troupe::cli
