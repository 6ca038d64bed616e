#include "core/node/launcher/strays.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

#include "core/base/fd.h"
#include "core/node/launcher/spawn.h"

namespace troupe::node {
namespace {

std::string hex8(std::uint32_t value) {
  char text[9];
  std::snprintf(text, sizeof(text), "%08x", value);
  return text;
}

/// The mark of a process, or nothing: also when it is gone, a zombie or not ours.
std::string read_mark(int pid, std::string& buffer) {
  const UniqueFd fd(::open(("/proc/" + std::to_string(pid) + "/environ").c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return {};
  buffer.clear();
  char block[16384];
  for (ssize_t n; (n = ::read(fd.get(), block, sizeof(block))) > 0;) buffer.append(block, static_cast<std::size_t>(n));
  const std::string key = std::string(kMarkVariable) + "=";
  for (std::size_t at = buffer.find(key); at != std::string::npos; at = buffer.find(key, at + 1))
    if (at == 0 || buffer[at - 1] == '\0') return std::string(buffer.c_str() + at + key.size());
  return {};
}

std::vector<int> all_pids() {
  std::vector<int> result;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
  while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr)
    if (const int pid = std::atoi(entry->d_name); pid > 1) result.push_back(pid);
  return result;
}

std::vector<int> own_children() {
  std::vector<int> result;
  for (int pid : all_pids()) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');  // the name may hold anything
    char state = 0;
    int parent = 0;
    if (name_end != std::string::npos && std::sscanf(text.c_str() + name_end + 1, " %c %d", &state, &parent) == 2 &&
        parent == ::getpid())
      result.push_back(pid);
  }
  return result;
}

UniqueFd open_pid(int pid) { return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

}  // namespace

std::string mark_of(const std::string& session, const std::string& node, JobId job, std::uint32_t serial) {
  return mark_of_job(session, node, job) + hex8(serial);
}

std::string mark_of_job(const std::string& session, const std::string& node, JobId job) {
  return session + "/" + node + "/" + hex8(job) + "/";
}

void set_mark_serial(std::uint32_t serial) {
  char* mark = ::getenv(kMarkVariable);
  if (!mark || std::strlen(mark) < 8) return;
  const std::string digits = hex8(serial);
  std::memcpy(mark + std::strlen(mark) - 8, digits.data(), 8);
}

std::vector<Marked> find_marked(std::string_view prefix) {
  std::vector<Marked> result;
  std::string buffer;
  for (int pid : all_pids()) {
    if (pid == ::getpid()) continue;
    std::string mark = read_mark(pid, buffer);
    if (!mark.empty() && mark.starts_with(prefix)) result.push_back({pid, std::move(mark)});
  }
  return result;
}

int kill_where(std::string_view prefix, const std::function<bool(const Marked&)>& choose) {
  int hit = 0;
  std::string buffer;
  for (const Marked& marked : find_marked(prefix)) {
    if (!choose(marked)) continue;
    // By pidfd, and looked at again: the number may name another process by now.
    const UniqueFd fd = open_pid(marked.pid);
    if (fd.get() < 0 || read_mark(marked.pid, buffer) != marked.mark) continue;
    if (::syscall(SYS_pidfd_send_signal, fd.get(), SIGKILL, nullptr, 0) == 0) ++hit;
  }
  return hit;
}

int kill_marked(std::string_view prefix, Duration limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int total = 0;
  for (;;) {
    std::vector<UniqueFd> dying;
    std::string buffer;
    for (const Marked& marked : find_marked(prefix)) {
      UniqueFd fd = open_pid(marked.pid);
      if (fd.get() < 0 || read_mark(marked.pid, buffer) != marked.mark) continue;
      if (::syscall(SYS_pidfd_send_signal, fd.get(), SIGKILL, nullptr, 0) == 0) dying.push_back(std::move(fd));
    }
    if (dying.empty()) return total;
    total += static_cast<int>(dying.size());
    for (const UniqueFd& fd : dying) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return total;
      pollfd poll{fd.get(), POLLIN, 0};
      ::poll(&poll, 1, static_cast<int>(left.count()));
    }
  }
}

void end_children(int signals, Duration limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    for (int pid : own_children()) ::kill(pid, SIGKILL);
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {}
    if (reaped < 0) return;  // no child is left
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return;
    pollfd poll{signals, POLLIN, 0};
    ::poll(&poll, 1, static_cast<int>(left.count()));
    char ignored[1024];
    while (::read(signals, ignored, sizeof(ignored)) > 0) {}
  }
}

}  // namespace troupe::node
