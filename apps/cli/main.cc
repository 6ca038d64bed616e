// The `troupe` command. Also the executable of a long-lived cluster's head and daemons: then run() takes over at once.
#include <cstdio>
#include <cstdlib>

#include "apps/cli/verbs.h"
#include <troupe/run.h>

int main(int argc, char** argv) {
  if (std::getenv("TROUPE_INTERNAL_ROLE")) return troupe::run(argc, argv, [] { return 2; });

  CLI::App app("Troupe: actors, tasks and objects on the machines you have", "troupe");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of all verbs");
  app.footer("Exit codes: 0 done, 1 the job or check failed, 2 wrong usage, 3 no cluster reached.");
  troupe::cli::Context context{argv[0]};
  troupe::cli::add_start(app, context);
  troupe::cli::add_stop(app, context);
  troupe::cli::add_status(app, context);
  troupe::cli::add_run(app, context);
  troupe::cli::add_list(app, context);
  troupe::cli::add_logs(app, context);
  troupe::cli::add_doctor(app, context);
  troupe::cli::add_bench(app, context);
  troupe::cli::add_later(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? troupe::cli::kDone : troupe::cli::kUsage;
  } catch (const troupe::Error& error) {
    return troupe::cli::complain(error, troupe::cli::kFailed);
  }
  return context.code;
}
