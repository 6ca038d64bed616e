#include "apps/rl/program/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace rl {
namespace {

// From glibc 2.36 on <sys/wait.h> has P_PIDFD, and <sys/pidfd.h> the calls.
constexpr auto kByPidfd = static_cast<idtype_t>(3);

troupe::RuntimeEnvError no_child(const std::string& what, int error) {
  return troupe::RuntimeEnvError(fmt::format("{}: {}", what, std::strerror(error)));
}

int send_signal(int pidfd, int signal) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}

/// Standard input and output, signals as at a start, a group of its own.
class ChildPlan {
 public:
  ChildPlan(int input, int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ChildPlan(const ChildPlan&) = delete;
  ChildPlan& operator=(const ChildPlan&) = delete;
  ~ChildPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  /// 0, or the error.
  int run(pid_t* pid, std::vector<std::string> arguments) {
    std::vector<char*> pointers;
    for (std::string& one : arguments) pointers.push_back(one.data());
    pointers.push_back(nullptr);
    return ::posix_spawn(pid, "/proc/self/exe", &actions_, &attributes_, pointers.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

troupe::Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& arguments,
                                                 const std::filesystem::path& output) {
  const OwnedFd file(::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) return no_child(output.string(), errno);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return no_child("pipe2", errno);
  const OwnedFd input(ends[0]);
  OwnedFd lifeline(ends[1]);
  ChildPlan plan(input.get(), file.get());
  pid_t pid = -1;
  if (const int error = plan.run(&pid, arguments); error != 0) return no_child("posix_spawn", error);
  OwnedFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // nobody else reaps it: it is that one
  if (!process) {
    const int error = errno;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return no_child("pidfd_open", error);
  }
  return ChildProcess(std::move(process), std::move(lifeline));
}

ChildProcess::~ChildProcess() {
  if (!running()) return;
  send_signal(process_.get(), SIGKILL);
  siginfo_t info{};
  while (::waitid(kByPidfd, static_cast<id_t>(process_.get()), &info, WEXITED) != 0 && errno == EINTR) continue;
}

void ChildProcess::interrupt() const {
  if (process_) send_signal(process_.get(), SIGINT);
}

bool ChildProcess::running() {
  if (!process_) return false;
  siginfo_t info{};
  const int called = ::waitid(kByPidfd, static_cast<id_t>(process_.get()), &info, WEXITED | WNOHANG);
  if ((called == 0 && info.si_pid == 0) || (called != 0 && errno == EINTR)) return true;
  exit_code_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  process_.reset();
  return false;
}

troupe::Status interrupt_when_input_ends() {
  const int flags = ::fcntl(STDIN_FILENO, F_GETFL);
  if (flags < 0 || ::fcntl(STDIN_FILENO, F_SETOWN, ::getpid()) != 0 ||
      ::fcntl(STDIN_FILENO, F_SETSIG, SIGINT) != 0 || ::fcntl(STDIN_FILENO, F_SETFL, flags | O_ASYNC) != 0)
    return troupe::InvalidArgumentError(
        fmt::format("--end-with-input needs a pipe as standard input: {}", std::strerror(errno)));
  pollfd gone{STDIN_FILENO, 0, 0};  // an end is always told
  if (::poll(&gone, 1, 0) > 0) ::raise(SIGINT);  // it was gone before
  return {};
}

}  // namespace rl
