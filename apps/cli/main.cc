// The `troupe` command. Also the executable of a long-lived cluster's head and daemons: then run() takes over at once.
#include <cstdio>
#include <cstdlib>

#include "apps/cli/verbs.h"
#include <troupe/run.h>

namespace troupe::cli {

void add_cluster_flags(CLI::App& verb, ClusterFlags& flags) {
  verb.add_option("--address", flags.address, "The cluster (default: TROUPE_ADDRESS, else the newest of yours here)")
      ->type_name("HOST:PORT|FILE");
  verb.add_option("--token-file", flags.token_file,
                  "The cluster's token (default: TROUPE_TOKEN_FILE, else that of a node here)")
      ->type_name("FILE");
  verb.add_option("--session-root", flags.session_root, "Folder of the session folders")->type_name("DIR");
}

int complain(const Error& error, int code) {
  std::fprintf(stderr, "troupe: %s\n", error.message().c_str());
  for (const std::string& line : error.context().log_tail) std::fprintf(stderr, "  | %s\n", line.c_str());
  return code;
}

}  // namespace troupe::cli

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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? troupe::cli::kDone : troupe::cli::kUsage;
  } catch (const troupe::Error& error) {
    return troupe::cli::complain(error, troupe::cli::kFailed);
  }
  return context.code;
}
