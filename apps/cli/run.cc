// run: a program in a cluster: the one that is named or runs here; with -n one of N nodes on this machine that ends
// with the program.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "apps/cli/cluster.h"
#include "apps/cli/verbs.h"
#include "core/node/roles/roles.h"

namespace troupe::cli {
namespace {

/// Runs the program and gives its exit code, 128 + signal when a signal ended it. Signals of the terminal reach it
/// directly.
int run_program(std::vector<std::string> command) {
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int failure[2];
  if (::pipe2(failure, O_CLOEXEC) != 0) return complain(Error(std::string("pipe: ") + std::strerror(errno)), kFailed);
  const pid_t child = ::fork();
  if (child < 0) return complain(Error(std::string("fork: ") + std::strerror(errno)), kFailed);
  if (child == 0) {
    ::execvp(argv[0], argv.data());
    const int error = errno;
    if (::write(failure[1], &error, sizeof(error)) < 0) ::_exit(126);
    ::_exit(127);
  }
  ::close(failure[1]);
  ::signal(SIGINT, SIG_IGN);   // the program has it too, and decides
  ::signal(SIGTERM, SIG_IGN);
  int error = 0;
  const bool started = ::read(failure[0], &error, sizeof(error)) != sizeof(error);
  ::close(failure[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (!started) {
    std::fprintf(stderr, "troupe run: %s: %s\n", command[0].c_str(), std::strerror(error));
    return kUsage;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Asks a daemon to end and waits for it; kills it after ten seconds.
void end_node(int pid) {
  const int fd = int(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return;
  ::kill(pid, SIGTERM);
  pollfd ended{fd, POLLIN, 0};
  if (::poll(&ended, 1, 10'000) == 0) {
    ::kill(pid, SIGKILL);
    ::poll(&ended, 1, 5'000);
  }
  ::close(fd);
}

/// N nodes on this machine for as long as the program runs.
int run_with_nodes(int count, const std::vector<std::string>& command) {
  std::vector<node::StartedNode> started;
  int code = kDone;
  for (int i = 0; i < count && code == kDone; ++i) {
    node::StartOptions options;
    options.head = i == 0;
    if (i > 0) options.address = started[0].address;
    Result<node::StartedNode> one = node::start_node(options);
    if (one) started.push_back(*std::move(one));
    else code = complain(one.error(), kFailed);
  }
  if (code == kDone) {
    ::setenv("TROUPE_ADDRESS", started[0].address.c_str(), 1);
    code = run_program(command);
  }
  while (!started.empty()) {
    end_node(started.back().daemon_pid);
    started.pop_back();
  }
  return code;
}

/// In the cluster that is named or runs here. Without one the program starts one of its own.
int run_in_cluster(const ClusterFlags& flags, const std::vector<std::string>& command) {
  const Result<std::string> address = find_address(flags, Embedded::kNot);
  if (address) {
    const Result<std::string> socket = node::find_local_daemon(*address, flags.session_root);
    if (!socket) return complain(socket.error(), kNoCluster);
    ::setenv("TROUPE_ADDRESS", address->c_str(), 1);
  }
  return run_program(command);
}

/// `nodes` 0: not given.
int run_verb(int nodes, const ClusterFlags& flags, const std::vector<std::string>& command) {
  if (command.empty()) {
    std::fprintf(stderr, "troupe run: give the program after --, as in: troupe run -- ./app --seed 1\n");
    return kUsage;
  }
  if (nodes == 0) return run_in_cluster(flags, command);
  if (names_cluster(flags)) {
    std::fprintf(stderr,
                 "troupe run: -n starts nodes of its own, and a cluster is named by --address or TROUPE_ADDRESS: give "
                 "one of them\n");
    return kUsage;
  }
  return run_with_nodes(nodes, command);
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  struct Flags { int nodes = 0; ClusterFlags cluster; std::vector<std::string> command; };
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand("run", "Run a program in the running cluster, else in one of its own");
  verb->add_option("-n,--nodes", flags->nodes,
                   "In a cluster of its own, of so many nodes on this machine, whatever runs here")
      ->check(CLI::Range(1, 64));
  verb->add_option("--address", flags->cluster.address,
                   "The cluster (default: TROUPE_ADDRESS, else the newest of yours here)")
      ->type_name("HOST:PORT|FILE");
  verb->add_option("command", flags->command, "The program and its arguments, after --");
  verb->positionals_at_end(true);
  verb->footer("Exit codes: the program's own, 128 + the signal that ended it; before it has begun: 1 a node did not "
               "start, 2 wrong usage or no such program, 3 no node of the cluster here.");
  verb->callback([flags, &context] { context.code = run_verb(flags->nodes, flags->cluster, flags->command); });
}

}  // namespace troupe::cli
