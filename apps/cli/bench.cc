// bench: a short set of measures of this machine, by the program that is installed beside the command.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "apps/cli/verbs.h"

namespace troupe::cli {

void add_bench(CLI::App& app, Context& context) {
  struct Flags { std::string only; bool quick = false, json = false; };
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand("bench", "Measure calls, tasks and objects on this machine");
  verb->add_option("--only", flags->only, "Only rows whose name matches")->type_name("REGEX");
  verb->add_flag("--quick", flags->quick, "Shorter trials");
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->callback([flags, &context] {
    std::error_code error;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    std::string program = (self.parent_path() / "troupe-bench").string();
    if (::access(program.c_str(), X_OK) != 0) {
      std::fprintf(stderr, "troupe bench: %s is not there; from the source folder: bench/run\n", program.c_str());
      context.code = kFailed;
      return;
    }
    std::vector<char*> argv{program.data()};
    std::string only = "--only", quick = "--quick", json = "--json";
    if (!flags->only.empty()) { argv.push_back(only.data()); argv.push_back(flags->only.data()); }
    if (flags->quick) argv.push_back(quick.data());
    if (flags->json) argv.push_back(json.data());
    argv.push_back(nullptr);
    ::execv(program.c_str(), argv.data());
    context.code = complain(Error("cannot run " + program + ": " + std::strerror(errno)), kFailed);
  });
}

void add_later(CLI::App& app, Context& context) {
  static constexpr const char* kLater[][2] = {
      {"submit", "Run a program in the cluster without waiting for it"}, {"job", "Jobs: list, status, logs, stop"}, {"get", "One row, in full"},
      {"summary", "Counts of tasks, actors or objects"}, {"memory", "What holds the object stores"}, {"timeline", "What ran when, as a trace"},
      {"stack", "Stacks of the processes"}, {"top", "What runs now, refreshed"}};
  for (const auto& [name, what] : kLater) {
    CLI::App* verb = app.add_subcommand(name, std::string(what) + " (not available yet)");
    verb->allow_extras();
    verb->callback([name = name, &context] {
      std::fprintf(stderr, "troupe %s: not available yet\n", name);
      context.code = kUsage;
    });
  }
}

int complain(const Error& error, int code) {
  std::fprintf(stderr, "troupe: %s\n", error.message().c_str());
  for (const std::string& line : error.context().log_tail) std::fprintf(stderr, "  | %s\n", line.c_str());
  return code;
}

}  // namespace troupe::cli
