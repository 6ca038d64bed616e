// doctor: what is missing on this machine, and what to do. Fails only for what keeps Troupe from working.
#include <algorithm>
#include <cstdio>

#include "apps/cli/doctor.h"
#include "apps/cli/table.h"
#include "apps/cli/verbs.h"

namespace troupe::cli {

void add_doctor(CLI::App& app, Context& context) {
  struct Flags { std::string root; bool json = false; };
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand("doctor", "What is missing on this machine, and what to do");
  verb->add_option("--session-root", flags->root, "Folder of the session folders")->type_name("DIR");
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->callback([flags, &context] {
    const std::vector<Finding> findings = judge(gather(flags->root));
    Table table{{"check", "level", "found", "advice"}, {}};
    for (const Finding& f : findings) {
      table.rows.push_back({f.check, std::string(level_name(f.level)), f.found, f.advice});
      if (!flags->json)
        std::printf("%-4s  %-15s %s\n%s", level_name(f.level), f.check.c_str(), f.found.c_str(),
                    f.advice.empty() ? "" : ("      " + std::string(16, ' ') + "-> " + f.advice + "\n").c_str());
    }
    if (flags->json) std::fputs(to_json(table).c_str(), stdout);
    const auto failed =
        std::count_if(findings.begin(), findings.end(), [](const Finding& f) { return f.level == Level::kFail; });
    context.code = failed ? kFailed : kDone;
  });
}

}  // namespace troupe::cli
