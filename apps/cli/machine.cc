#include "apps/cli/machine.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/node/session/session.h"

namespace troupe::cli {
namespace {

namespace fs = std::filesystem;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void gather_memory(Machine& m) {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    std::uint64_t kilobytes = 0;
    file >> kilobytes;
    if (name == "MemTotal:") m.memory = kilobytes << 10;
    if (name == "MemAvailable:") m.memory_available = kilobytes << 10;
    file.ignore(256, '\n');
  }
  const std::string limit = first_line("/sys/fs/cgroup/memory.max");
  if (!limit.empty() && limit != "max") m.cgroup_limit = std::strtoull(limit.c_str(), nullptr, 10);
}

void gather_kernel(Machine& m) {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) m.cores = CPU_COUNT(&set);
  if (const int fd = ::memfd_create("troupe-doctor", MFD_CLOEXEC); fd >= 0) {
    m.memfd = true;
    m.memfd_reserves = ::fallocate(fd, 0, 0, 1 << 20) == 0;
    ::close(fd);
  }
  if (const int fd = int(::syscall(SYS_pidfd_open, ::getpid(), 0)); fd >= 0) {
    m.pidfd = true;
    ::close(fd);
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    m.open_files_soft = limit.rlim_cur;
    m.open_files_hard = limit.rlim_max;
  }
  if (::getrlimit(RLIMIT_NPROC, &limit) == 0) m.processes_soft = limit.rlim_cur;
  const std::string choices = first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  if (const auto open = choices.find('['), close = choices.find(']');
      open != std::string::npos && close != std::string::npos)
    m.shmem_hugepages = choices.substr(open + 1, close - open - 1);
  m.proc = fs::exists("/proc/self/exe");
}

/// Makes the folder as a session would, and a file in it.
std::string try_session_folder(const std::string& folder) {
  std::error_code error;
  if (fs::create_directories(folder, error); error) return error.message();
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return std::strerror(errno);
  if (!S_ISDIR(status.st_mode)) return "it is not a folder";
  if (status.st_uid != ::getuid()) return "it belongs to somebody else";
  if ((status.st_mode & 0077) != 0 && ::chmod(folder.c_str(), 0700) != 0) return std::strerror(errno);
  std::string name = folder + "/.doctor-XXXXXX";
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return std::strerror(errno);
  ::close(fd);
  ::unlink(name.c_str());
  return {};
}

void gather_sessions(Machine& m, const std::string& root) {
  m.session_folder = node::sessions_folder(root);
  m.session_error = try_session_folder(m.session_folder);
  struct statvfs space {};
  if (::statvfs(m.session_folder.c_str(), &space) == 0)
    m.session_space = std::uint64_t(space.f_bavail) * space.f_frsize;
  std::error_code error;
  for (const auto& session : fs::directory_iterator(m.session_folder, error)) {
    struct stat status {};
    const std::string token = session.path().string() + "/token";
    if (::lstat(token.c_str(), &status) != 0) continue;
    m.token_file = token;
    m.token_mode = status.st_mode & 0777;
    m.token_is_ours = status.st_uid == ::getuid();
    if (m.token_mode != 0600 || !m.token_is_ours) return;  // the worst one is what is shown
  }
}

std::string library(const char* name, std::string* error = nullptr) {
  void* handle = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (!handle) {
    if (error) *error = ::dlerror();
    return {};
  }
  link_map* map = nullptr;
  std::string path = name;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name) path = map->l_name;
  ::dlclose(handle);
  return path;
}

void gather_gpus(Machine& m) {
  std::error_code error;
  for (const auto& gpu : fs::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    std::ifstream file(gpu.path() / "information");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("Model:")) m.gpus.push_back(line.substr(line.find_first_not_of(" \t", 6)));
  }
  m.cuda_driver = library("libcuda.so.1");
  const char* nccl = std::getenv("TROUPE_NCCL_LIB");
  m.nccl = library(nccl && *nccl ? nccl : "libnccl.so.2");
}

}  // namespace

Machine gather(const std::string& session_root) {
  Machine m;
  gather_memory(m);
  gather_kernel(m);
  gather_sessions(m, session_root);
  m.rpc_library = library("libtroupe_rpc.so", &m.rpc_error);
  gather_gpus(m);
  return m;
}

}  // namespace troupe::cli
