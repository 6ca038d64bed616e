#include "core/node/launcher/launcher.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "core/boot/boot_socket.h"
#include "core/node/launcher/spawn.h"
#include "core/node/launcher/strays.h"

namespace troupe::node {
namespace {

constexpr int kRequestFd = 4;  ///< an exec'd worker finds its ForkRequest here

int thread_count() {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir("/proc/self/task"), &::closedir);
  int count = 0;
  while (tasks) {
    const dirent* entry = ::readdir(tasks.get());
    if (!entry) break;
    count += entry->d_name[0] != '.';
  }
  return std::max(count, 1);
}

std::string visible_devices(const std::vector<int>& gpu_ids) {
  std::string text;
  for (int id : gpu_ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

std::map<std::string, std::string> worker_variables(const wire::ForkRequest& request) {
  std::map<std::string, std::string> variables = request.env_vars;
  if (!request.gpu_ids.empty()) variables["CUDA_VISIBLE_DEVICES"] = visible_devices(request.gpu_ids);
  return variables;
}

std::string working_dir_problem(const std::string& path) {
  struct stat info {};
  if (path.empty()) return {};
  if (::stat(path.c_str(), &info) != 0) return "the working directory " + path + ": " + std::strerror(errno);
  if (!S_ISDIR(info.st_mode)) return "the working directory " + path + " is not a directory";
  if (::access(path.c_str(), X_OK) != 0) return "the working directory " + path + ": " + std::strerror(errno);
  return {};
}

[[noreturn]] void finish_worker(const RoleHooks& hooks, WorkerBoot boot) {
  int code = 1;
  try {
    code = hooks.worker_main(std::move(boot));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "the worker ended with an exception: %s\n", e.what());
  }
  std::fflush(nullptr);
  ::_exit(code);  // static destructors belong to the launcher, which ran the constructors
}

class Launcher {
 public:
  Launcher(const RoleHooks& hooks, UniqueFd socket) : hooks_(hooks), socket_(std::move(socket)), parent_(::getpid()) {}

  int run() {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child, &mask_before_);
    signals_ = UniqueFd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::fflush(nullptr);  // what was printed before run is printed once, not by each fork
    threads_ = thread_count();
    if (threads_ > 1)
      std::fprintf(
          stderr,
          "this program has %d threads before troupe::run (a library starts them at load time): each worker is started "
          "anew instead of forked, which takes longer\n",
          threads_);
    if (!send_message(socket_.get(), wire::BootKind::kLauncherReady,
                      wire::LauncherReady{parent_, threads_, hooks_.registry_digest})
             .ok())
      return 1;
    while (step()) {}
    end_children();
    return 0;
  }

 private:
  bool step() {
    pollfd polls[2] = {{socket_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    if (::poll(polls, 2, -1) < 0) return errno == EINTR;  // waits for its daemon, with which it dies
    if (polls[1].revents) {
      signalfd_siginfo info;
      while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {}
      reap();
    }
    if (!polls[0].revents) return true;
    Result<Received> received = receive_packet(socket_.get());
    if (!received.ok() || received->state == Received::State::kClosed) return false;
    if (received->state == Received::State::kPacket && received->packet.kind == wire::BootKind::kFork)
      fork_worker(std::move(received->packet));
    return true;
  }

  void fork_worker(BootPacket packet) {
    Result<wire::ForkRequest> request = wire::decode_message<wire::ForkRequest>(packet.payload);
    wire::Forked answer;
    if (!request.ok() || packet.fds.size() != 3) {
      answer.error = "a request that does not decode";
    } else {
      answer.serial = request->serial;
      answer.error = working_dir_problem(request->working_dir);
      if (answer.error.empty()) {
        const int pid = threads_ > 1 ? exec_child(packet, *request) : fork_child(packet, *request);
        if (pid > 0) {
          children_[pid] = request->serial;
          answer.pid = pid;
        } else {
          answer.error = std::string("fork: ") + std::strerror(errno);
        }
      }
    }
    (void)send_message(socket_.get(), wire::BootKind::kForked, answer).ok();
    reap();  // a child that ended before it was listed
  }

  int fork_child(BootPacket& packet, const wire::ForkRequest& request) {
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // LA-2
    if (::getppid() != parent_) ::_exit(127);
    ::setpgid(0, 0);
    ::prctl(PR_SET_NAME, "troupe-worker");
    const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::dup2(null.get(), 0);
    ::dup2(packet.fds[1].get(), 1);
    ::dup2(packet.fds[2].get(), 2);
    packet.fds.resize(1);
    socket_ = UniqueFd();
    signals_ = UniqueFd();  // LA-3
    set_mark_serial(request.serial);
    for (const auto& [key, value] : worker_variables(request)) ::setenv(key.c_str(), value.c_str(), 1);
    if (!request.working_dir.empty() && ::chdir(request.working_dir.c_str()) != 0) ::_exit(126);
    ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    finish_worker(hooks_, WorkerBoot{std::move(packet.fds[0]), request.serial, request});
  }

  int exec_child(const BootPacket& packet, const wire::ForkRequest& request) {
    const std::vector<std::byte> bytes = wire::encode_message(request);
    const UniqueFd memfd(::memfd_create("troupe-fork-request", MFD_CLOEXEC));
    Result<UniqueFd> executable = open_own_executable();
    if (memfd.get() < 0 || !executable.ok() ||
        ::write(memfd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      return -1;
    SpawnOptions options;
    options.executable = executable->get();
    options.argv = own_argv();
    options.environment = clean_environment();
    for (const auto& [key, value] : worker_variables(request)) {
      const std::string start = key + "=";
      std::erase_if(options.environment, [&](const std::string& e) { return e.starts_with(start); });
      options.environment.push_back(start + value);
    }
    std::string mark = ::getenv(kMarkVariable) ? ::getenv(kMarkVariable) : "";
    if (mark.size() >= 8) {
      char digits[9];
      std::snprintf(digits, sizeof(digits), "%08x", request.serial);
      mark.replace(mark.size() - 8, 8, digits);
    }
    options.environment.push_back(std::string(kMarkVariable) + "=" + mark);
    options.environment.push_back(std::string(kRoleVariable) + "=worker");
    options.working_dir = request.working_dir;
    options.out = packet.fds[1].get();
    options.err = packet.fds[2].get();
    options.fds = {{packet.fds[0].get(), kRoleFd}, {memfd.get(), kRequestFd}};
    options.new_session = false;
    Result<int> pid = spawn(options);
    if (!pid.ok()) return -1;
    ::setpgid(*pid, *pid);
    return *pid;
  }

  void reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid <= 0) return;
      auto it = children_.find(pid);
      if (it == children_.end()) continue;  // left behind by a worker
      const std::uint32_t serial = it->second;
      children_.erase(it);
      (void)send_message(socket_.get(), wire::BootKind::kExited, wire::Exited{serial, pid, status}).ok();
    }
  }

  void end_children() {
    for (const auto& [pid, serial] : children_) ::kill(-pid, SIGKILL);
    for (const auto& [pid, serial] : children_) ::kill(pid, SIGKILL);
  }

  const RoleHooks& hooks_;
  UniqueFd socket_, signals_;
  int parent_;
  int threads_ = 1;
  sigset_t mask_before_{};
  std::map<int, std::uint32_t> children_;  // pid -> serial
};

UniqueFd take_role_fd(int number) {
  ::fcntl(number, F_SETFD, FD_CLOEXEC);
  return UniqueFd(number);
}

}  // namespace

int launcher_main(const RoleHooks& hooks) {
  ::unsetenv(kRoleVariable);
  ::prctl(PR_SET_NAME, "troupe-launcher");
  Launcher launcher(hooks, take_role_fd(kRoleFd));
  return launcher.run();
}

int exec_worker_main(const RoleHooks& hooks) {
  ::unsetenv(kRoleVariable);
  ::prctl(PR_SET_NAME, "troupe-worker");
  UniqueFd socket = take_role_fd(kRoleFd);
  const UniqueFd memfd = take_role_fd(kRequestFd);
  struct stat info {};
  if (::fstat(memfd.get(), &info) != 0 || info.st_size < 0 || static_cast<std::size_t>(info.st_size) > kPacketMax)
    return 1;
  std::vector<std::byte> bytes(static_cast<std::size_t>(info.st_size));
  if (::pread(memfd.get(), bytes.data(), bytes.size(), 0) != info.st_size) return 1;
  Result<wire::ForkRequest> request = wire::decode_message<wire::ForkRequest>(bytes);
  if (!request.ok()) return 1;
  finish_worker(hooks, WorkerBoot{std::move(socket), request->serial, std::move(*request)});
}

}  // namespace troupe::node
