#include "core/node/roles/roles.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "core/head/service/server.h"
#include "core/boot/boot_socket.h"
#include "core/node/daemon/daemon.h"
#include "core/node/daemon/base/config.h"
#include "core/node/launcher/launcher.h"
#include "core/node/session/last_rows.h"
#include "core/node/session/session.h"
#include "core/node/launcher/spawn.h"
#include "core/node/launcher/strays.h"

namespace troupe::node {
namespace {

constexpr int kDaemonEndWait = 2000;  // milliseconds; RO-2 promises 5 s for everything
constexpr std::chrono::seconds kDriverEndWait{2};

/// RO-2: when the daemon beside an embedded head was killed, the head is the last one: it ends what is left.
void clean_after_daemon(const HeadConfig& config, int daemon_pidfd, int lifeline) {
  if (!config.embedded) return;
  // A dying process closes its sockets before its end shows at its pidfd: whoever has hung up is waited for. A daemon
  // that ends in order keeps the lifeline until this process is gone.
  pollfd hung_up{lifeline, 0, 0}, ended{daemon_pidfd, POLLIN, 0};
  const bool leaving = ::poll(&hung_up, 1, 0) > 0;
  if (daemon_pidfd >= 0 && ::poll(&ended, 1, leaving ? kDaemonEndWait : 0) <= 0) return;
  kill_marked(std::filesystem::path(config.session_dir).filename().string() + "/", std::chrono::seconds(2));
  if (!await_release(config.session_dir, kDriverEndWait)) return;  // the driver lives, and cleans (RO-1)
  clean_session(config.session_dir, {});
}

int head_role() {
  ::unsetenv(kRoleVariable);
  ::prctl(PR_SET_NAME, "troupe-head");
  ::signal(SIGPIPE, SIG_IGN);
  keep_heap_small();
  raise_file_limit();
  for (int fd : {kRoleFd, kLifelineFd}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  const UniqueFd config_fd(kRoleFd), lifeline(kLifelineFd);
  Result<std::vector<std::byte>> bytes = read_config(config_fd.get());
  Result<HeadConfig> config =
      bytes.ok() ? wire::decode_message<HeadConfig>(*bytes) : Result<HeadConfig>(bytes.error_ptr());
  if (!config.ok()) {
    std::fprintf(stderr, "%s\n", config.error().what());
    return 1;
  }
  const UniqueFd daemon(config->parent_pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, config->parent_pid, 0))
                                               : -1);
  head::ServerOptions options;
  options.bind = config->bind;
  options.port = config->port;
  options.token_file = config->token_file;
  options.parent_pid = config->parent_pid;
  options.stop_fd = lifeline.get();
  options.end_on_hangup = config->embedded;
  options.journal = config->journal;
  options.recover = config->recover;
  options.log = {.file = config->session_dir + "/logs/head.log",
                 .label = "head",
                 .level = log_level_of(config->log_level, LogLevel::kInfo)};
  options.on_ready = [&](const Result<std::string>& address) { report_head(lifeline.get(), address); };
  options.on_end = [&](wire::StateKind kind, const wire::StateReply& rows) {
    keep_last_rows(config->session_dir, kind, rows);
  };
  const int code = head::head_main(options);
  clean_after_daemon(*config, daemon.get(), lifeline.get());
  return code;
}

}  // namespace

bool is_internal_role() { return std::getenv(kRoleVariable) != nullptr; }

bool enter_internal_role(int, char**, const RoleHooks& hooks) {
  const char* role = std::getenv(kRoleVariable);
  if (!role) return false;
  const std::string_view name(role);
  int code = 1;
  if (name == "daemon") code = daemon_main(hooks);
  else if (name == "head") code = head_role();
  else if (name == "launcher") code = launcher_main(hooks);
  else if (name == "worker") code = exec_worker_main(hooks);
  else return false;
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace troupe::node
