#include "core/node/launcher/spawn.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/base/thread.h"

extern char** environ;

namespace troupe::node {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Everything the child needs, made before vfork: between vfork and exec only system calls happen.
struct ChildPlan {
  const SpawnOptions* options = nullptr;
  char** argv = nullptr;
  char** environment = nullptr;
  std::pair<int, int>* fds = nullptr;
  std::size_t fd_count = 0;
  pid_t parent = 0;
  volatile int error = 0;
};

[[noreturn]] void fail(ChildPlan& plan) {
  plan.error = errno ? errno : EINVAL;
  ::_exit(127);
}

/// The first number that the child is not told to have something at.
int first_free_number(const ChildPlan& plan) {
  int number = 3;
  for (std::size_t i = 0; i < plan.fd_count; ++i) number = std::max(number, plan.fds[i].second + 1);
  return number;
}

void place_descriptors(ChildPlan& plan) {
  const SpawnOptions& o = *plan.options;
  const int highest = first_free_number(plan);
  // Twice: first out of the way of each other's numbers, then to their places.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int in = ::fcntl(null, F_DUPFD_CLOEXEC, highest);
  const int out = o.out >= 0 ? ::fcntl(o.out, F_DUPFD_CLOEXEC, highest) : -1;
  const int err = o.err >= 0 ? ::fcntl(o.err, F_DUPFD_CLOEXEC, highest) : -1;
  for (std::size_t i = 0; i < plan.fd_count; ++i) {
    plan.fds[i].first = ::fcntl(plan.fds[i].first, F_DUPFD_CLOEXEC, highest);
    if (plan.fds[i].first < 0) fail(plan);
  }
  if (::dup2(in, 0) < 0 || (out >= 0 && ::dup2(out, 1) < 0) || (err >= 0 && ::dup2(err, 2) < 0)) fail(plan);
  for (std::size_t i = 0; i < plan.fd_count; ++i)
    if (::dup2(plan.fds[i].first, plan.fds[i].second) < 0) fail(plan);
}

[[noreturn]] void run_child(ChildPlan& plan) {
  const SpawnOptions& o = *plan.options;
  if (o.new_session) ::setsid();
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s)
    if (s != SIGKILL && s != SIGSTOP) ::sigaction(s, &standard, nullptr);
  if (o.die_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != plan.parent) ::_exit(127);
  }
  // Out of the range that place_descriptors writes to.
  const int executable = ::fcntl(o.executable, F_DUPFD_CLOEXEC, first_free_number(plan));
  if (executable < 0) fail(plan);
  place_descriptors(plan);
  if (!o.working_dir.empty()) [[maybe_unused]] int ignored = ::chdir(o.working_dir.c_str());
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::fexecve(executable, plan.argv, plan.environment);
  fail(plan);
}

}  // namespace

Result<int> spawn(const SpawnOptions& options) {
  std::vector<char*> argv = pointers(options.argv), environment = pointers(options.environment);
  std::vector<std::pair<int, int>> fds = options.fds;
  ChildPlan plan{&options, argv.data(), environment.data(), fds.data(), fds.size(), ::getpid(), 0};
  pid_t pid = -1;
  int fork_error = 0;
  {
    const SignalsBlocked blocked;  // no handler of ours may run in the child
    pid = ::vfork();
    if (pid == 0) run_child(plan);
    fork_error = errno;
  }
  if (pid < 0) return make_error<Error>(std::string("starting a process: ") + std::strerror(fork_error));
  if (plan.error != 0) {
    ::waitpid(pid, nullptr, 0);
    return make_error<Error>("starting " + (options.argv.empty() ? std::string("a process") : options.argv[0]) + ": " +
                             std::strerror(plan.error));
  }
  return static_cast<int>(pid);
}

std::vector<std::string> clean_environment() {
  std::vector<std::string> result;
  for (char** e = environ; *e; ++e)
    if (std::strncmp(*e, "TROUPE_INTERNAL_", 16) != 0) result.emplace_back(*e);
  return result;
}

std::vector<std::string> own_argv() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> result;
  for (std::string word; std::getline(file, word, '\0');) result.push_back(word);
  return result;
}

Result<UniqueFd> open_own_executable() {
  UniqueFd fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return make_error<Error>(std::string("opening /proc/self/exe: ") + std::strerror(errno));
  return fd;
}

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void keep_heap_small() {
  // the transport has many threads: an arena for each would keep the peak of each
  ::mallopt(M_ARENA_MAX, 2);
  // fixed: otherwise it grows with the largest batch, and such batches stay in the heap
  ::mallopt(M_MMAP_THRESHOLD, 128 * 1024);
}

}  // namespace troupe::node
