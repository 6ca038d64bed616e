#include "apps/cli/doctor.h"

#include <algorithm>

#include "apps/cli/parse.h"

namespace troupe::cli {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

Finding ok(std::string check, std::string found) { return {std::move(check), Level::kOk, std::move(found), {}}; }
Finding bad(Level level, std::string check, std::string found, std::string advice) {
  return {std::move(check), level, std::move(found), std::move(advice)};
}

Finding cores(const Machine& m) {
  const std::string found = std::to_string(m.cores) + (m.cores == 1 ? " core" : " cores");
  if (m.cores >= 2) return ok("cores", found);
  return bad(Level::kWarn, "cores", found,
             "driver and worker share one core: calls take several times as long; give this process two");
}

Finding memory(const Machine& m) {
  const std::uint64_t usable = m.cgroup_limit ? std::min(m.cgroup_limit, m.memory) : m.memory;
  const std::string found = size_text(usable) + ", " + size_text(m.memory_available) +
                            " available; the object store may take " + size_text(usable / 10 * 3);
  if (m.memory == 0)
    return bad(Level::kWarn, "memory", "unknown", "/proc/meminfo cannot be read; give --object-store-memory");
  if (m.memory_available < kGiB / 2)
    return bad(Level::kFail, "memory", found, "end other programs: less than 512 MiB are available");
  if (m.memory_available < usable / 10 * 3)
    return bad(Level::kWarn, "memory", found,
               "less is available than the store's default size; give --object-store-memory");
  return ok("memory", found);
}

Finding store(const Machine& m) {
  if (!m.memfd)
    return bad(Level::kFail, "store memory", "no memfd",
               "the kernel or a seccomp filter refuses memfd_create: allow it");
  if (!m.memfd_reserves)
    return bad(Level::kFail, "store memory", "a memfd cannot be reserved",
               "fallocate on shared memory fails: free memory, or raise the cgroup's limit");
  return ok("store memory", "memfd with reservation");
}

Finding processes(const Machine& m) {
  if (!m.pidfd)
    return bad(Level::kFail, "processes", "no pidfd",
               "Linux 5.3 or later is needed, and a seccomp filter that allows pidfd_open");
  if (m.processes_soft < 1024)
    return bad(Level::kWarn, "processes", "at most " + std::to_string(m.processes_soft),
               "raise it: ulimit -u 4096 (each worker is a process with a few threads)");
  return ok("processes", "pidfd, and enough of them allowed");
}

Finding open_files(const Machine& m) {
  const std::string found = std::to_string(m.open_files_soft) + " (up to " + std::to_string(m.open_files_hard) + ")";
  if (m.open_files_hard < 4096)
    return bad(Level::kWarn, "open files", found,
               "raise the hard limit to 65536 (limits.conf, or LimitNOFILE of the service)");
  return ok("open files", found);
}

Finding huge_pages(const Machine& m) {
  if (m.shmem_hugepages == "advise" || m.shmem_hugepages == "always" || m.shmem_hugepages == "within_size")
    return ok("huge pages", m.shmem_hugepages);
  return bad(Level::kWarn, "huge pages", m.shmem_hugepages.empty() ? "unknown" : m.shmem_hugepages,
             "large objects are copied faster with: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled");
}

Finding proc(const Machine& m) {
  if (m.proc) return ok("/proc", "mounted");
  return bad(Level::kFail, "/proc", "missing", "mount /proc: workers are started from /proc/self/exe");
}

Finding session(const Machine& m) {
  if (!m.session_error.empty())
    return bad(Level::kFail, "session folder", m.session_folder + ": " + m.session_error,
               "make it yours and writable, or set TROUPE_SESSION_ROOT to a folder that is");
  if (m.session_folder.size() > 60)
    return bad(Level::kWarn, "session folder", m.session_folder,
               "its name is long, and unix sockets allow 107 characters: set TROUPE_SESSION_ROOT to a shorter one");
  return ok("session folder", m.session_folder);
}

Finding space(const Machine& m) {
  if (m.session_space < kGiB / 4)
    return bad(Level::kFail, "free space", size_text(m.session_space),
               "free some in " + m.session_folder + ": logs and history go there");
  if (m.session_space < 4 * kGiB)
    return bad(Level::kWarn, "free space", size_text(m.session_space), "little room for logs in " + m.session_folder);
  return ok("free space", size_text(m.session_space));
}

Finding rpc(const Machine& m) {
  if (!m.rpc_library.empty()) return ok("libtroupe_rpc", m.rpc_library);
  return bad(Level::kWarn, "libtroupe_rpc", m.rpc_error,
             "clusters of several nodes need it: install Troupe whole, or add its folder to LD_LIBRARY_PATH");
}

Finding gpu(const Machine& m) {
  if (m.gpus.empty()) return ok("GPU", "none");
  std::string found = std::to_string(m.gpus.size()) + " x " + m.gpus.front();
  if (m.cuda_driver.empty())
    return bad(Level::kWarn, "GPU", found, "libcuda.so.1 was not found: install the driver's user libraries");
  if (m.nccl.empty())
    return bad(Level::kWarn, "GPU", found + ", " + m.cuda_driver,
               "libnccl.so.2 was not found: install NCCL, or set TROUPE_NCCL_LIB");
  return ok("GPU", found + ", " + m.cuda_driver + ", " + m.nccl);
}

Finding token(const Machine& m) {
  if (m.token_file.empty()) return ok("token file", "no running session");
  if (!m.token_is_ours)
    return bad(Level::kFail, "token file", m.token_file + " belongs to somebody else",
               "remove that session and start the cluster again");
  if (m.token_mode != 0600)
    return bad(Level::kFail, "token file", m.token_file + " can be read by others",
               "chmod 600 " + m.token_file + ", then restart the cluster: the token may be known");
  return ok("token file", "0600");
}

}  // namespace

const char* level_name(Level level) {
  switch (level) {
    case Level::kOk: return "ok";
    case Level::kWarn: return "warn";
    case Level::kFail: return "fail";
  }
  return "?";
}

std::vector<Finding> judge(const Machine& m) {
  return {cores(m), memory(m),  store(m), processes(m), open_files(m), huge_pages(m),
          proc(m),  session(m), space(m), rpc(m),       gpu(m),        token(m)};
}

}  // namespace troupe::cli
