// What happens to tasks that the kernel ends for want of memory: they have a budget of their own (max_oom_retries), and
// at its end an error of their own. The task puts its worker into a cgroup with little memory and takes more.
// Where this process may make no memory cgroup the program is skipped (exit code 77).
#include <sys/mman.h>

#include "check.h"

using namespace std::chrono_literals;
using troupe::get, troupe::task;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLimit = std::size_t{64} << 20;

/// The folder of this process's cgroup in the hierarchy that has the memory controller; empty: none.
fs::path own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  fs::path v2;
  for (std::string line; std::getline(file, line);) {
    const std::size_t path = line.find(':', line.find(':') + 1) + 1;
    if (line.find(":memory:") != std::string::npos) return "/sys/fs/cgroup/memory" + line.substr(path);
    if (line.starts_with("0::")) v2 = "/sys/fs/cgroup" + line.substr(path);
  }
  return v2;
}

/// A cgroup with kLimit of memory below this process's; gone with it.
class SmallCgroup {
 public:
  SmallCgroup() {
    path_ = own_cgroup() / ("troupe-memory-test-" + std::to_string(::getpid()));
    std::error_code error;
    if (!fs::create_directory(path_, error)) return;
    const auto set = [&](const char* name, std::size_t value) {
      return fs::exists(path_ / name) && bool(std::ofstream(path_ / name) << value << std::flush);
    };
    const bool limited = set("memory.limit_in_bytes", kLimit) || set("memory.max", kLimit);
    // what could be swapped out would not be killed
    const bool no_swap = set("memory.memsw.limit_in_bytes", kLimit) || set("memory.swap.max", 0) || !machine_swaps();
    usable_ = limited && no_swap && ::access(processes().c_str(), W_OK) == 0;
  }
  ~SmallCgroup() {
    std::error_code ignored;
    rt::eventually([&] {
      std::ifstream left(processes());  // a check has failed where there are any
      for (pid_t pid; left >> pid;) ::kill(pid, SIGKILL);
      return fs::remove(path_, ignored) || !fs::exists(path_, ignored);
    }, 10);
  }
  SmallCgroup(const SmallCgroup&) = delete;
  bool usable() const { return usable_; }
  std::string processes() const { return path_ / "cgroup.procs"; }

 private:
  static bool machine_swaps() {
    std::ifstream swaps("/proc/swaps");
    std::string heading, first;
    return std::getline(swaps, heading) && std::getline(swaps, first);
  }

  fs::path path_;
  bool usable_ = false;
};

/// Moves its worker to the cgroup, and in its first `hungry` attempts takes more than that has.
int take_memory(const std::string& processes, const std::string& attempts, int hungry) {
  const int attempt = rt::bump(attempts);
  if (attempt > hungry) return attempt;
  if (!(std::ofstream(processes) << ::getpid() << std::flush)) throw std::runtime_error("cannot enter " + processes);
  void* memory = ::mmap(nullptr, 4 * kLimit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (std::size_t at = 0; at < 4 * kLimit; at += 4096) static_cast<volatile char*>(memory)[at] = 1;
  throw std::runtime_error("the cgroup did not end this process");
}

const std::vector<rt::Promise>& promises() {
  static const std::vector<rt::Promise> list = {
    {"a task that runs out of memory is tried again from its own budget", [] {
      rt::Folder folder;
      SmallCgroup small;
      auto tried = task<&take_memory>.options({.retry = {.max_retries = 0, .max_oom_retries = 2}});
      CHECK_EQ(get(tried.remote(small.processes(), folder / "two", 2), {.timeout = 30s}), 3);
    }},
    {"without budget it fails with OutOfMemoryError, whatever is left for crashes", [] {
      rt::Folder folder;
      SmallCgroup small;
      auto tried = task<&take_memory>.options({.retry = {.max_retries = 5, .max_oom_retries = 1}});
      auto held = tried.remote(small.processes(), folder / "all", 9);
      const auto error = CHECK_THROWS(troupe::OutOfMemoryError, get(held, {.timeout = 30s}));
      CHECK_EQ(rt::count(folder / "all"), 2);
      CHECK(error && std::string(error->what()).find("memory") != std::string::npos);
    }},
  };
  return list;
}

}  // namespace

int main(int argc, char** argv) {
  if (!SmallCgroup().usable()) {
    std::fprintf(stderr, "skipped: this process may make no cgroup with a limit of memory\n");
    return 77;
  }
  return rt::main(argc, argv, {.cpus = 2}, promises());
}
