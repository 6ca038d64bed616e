// What `troupe doctor` looks at: facts of this machine, gathered here and judged in doctor.h.
//
// Thread rule: gather() from one thread. It changes nothing but a temporary file that it removes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::cli {

struct Machine {
  int cores = 0;                          ///< that this process may use
  std::uint64_t memory = 0, memory_available = 0;
  std::uint64_t cgroup_limit = 0;         ///< bytes; 0: none
  bool memfd = false, memfd_reserves = false;   ///< a memfd can be made; fallocate works on it
  bool pidfd = false, futex_waits = true;
  std::uint64_t open_files_soft = 0, open_files_hard = 0, processes_soft = 0;
  std::string shmem_hugepages;            ///< the selected word of shmem_enabled; empty: unknown
  bool proc = false;                      ///< /proc/self is there
  std::string session_folder, session_error;    ///< error: why it cannot be used; empty: it can
  std::uint64_t session_space = 0;        ///< bytes free there
  std::string rpc_library, rpc_error;     ///< where libtroupe_rpc.so was found, or why not
  std::vector<std::string> gpus;
  std::string cuda_driver, nccl;          ///< found library names; empty: none
  std::string token_file;                 ///< of a running session; empty: none
  unsigned token_mode = 0;
  bool token_is_ours = true;
};

/// `session_root` empty: the default.
Machine gather(const std::string& session_root);

}  // namespace troupe::cli
