// The verbs of the `troupe` command. Each function adds one verb with its flags; when the verb is given on the command
// line its exit code is put into `code`.
//
//   0  done      1  the job or check failed      2  wrong usage      3  no cluster reached
//   run: the program's own, 128 + the signal that ended it
//
// Thread rule: called by main, once.
#pragma once
#include <CLI/CLI.hpp>

#include <string>

#include "apps/cli/cluster.h"
#include <troupe/error.h>

namespace troupe::cli {

inline constexpr int kDone = 0, kFailed = 1, kUsage = 2, kNoCluster = 3;

struct Context {
  std::string program;  ///< argv[0]
  int code = kDone;
};

void add_start(CLI::App& app, Context& context);
void add_stop(CLI::App& app, Context& context);
void add_status(CLI::App& app, Context& context);
void add_list(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_logs(CLI::App& app, Context& context);
void add_doctor(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);

/// --address, --token-file and --session-root, for a verb that asks a cluster.
void add_cluster_flags(CLI::App& verb, ClusterFlags& flags);

/// Prints "troupe: message" and what else the error knows to standard error; gives back `code`.
int complain(const Error& error, int code);

}  // namespace troupe::cli
