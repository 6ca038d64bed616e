// Starting programs from a process that has threads: vfork and exec, nothing between them that allocates or locks.
//
// Thread rule: any thread; but the child of `die_with_parent` dies with the *thread* that started it
// (PR_SET_PDEATHSIG).
//
// Invariants
//   SP-1  The child gets exactly the descriptors named, at the numbers named; signals are unblocked and at their
//         defaults.
//   SP-2  An exec that fails is reported by spawn, with its errno; no child is left then.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include <troupe/result.h>

namespace troupe::node {

/// The descriptor number at which a role finds its socket or configuration, and the names of what it is told.
inline constexpr int kRoleFd = 3;
inline constexpr const char* kRoleVariable = "TROUPE_INTERNAL_ROLE";
inline constexpr const char* kMarkVariable = "TROUPE_INTERNAL_MARK";

struct SpawnOptions {
  int executable = -1;                          ///< descriptor of the program (open with O_PATH or O_RDONLY)
  std::vector<std::string> argv;
  std::vector<std::string> environment;         ///< "K=V"; all of it
  std::string working_dir;                      ///< empty: ours; one that is gone is ignored
  int out = -1, err = -1;                       ///< -1: ours
  std::vector<std::pair<int, int>> fds;         ///< ours -> number in the child (above 2)
  bool new_session = true;
  bool die_with_parent = true;
};
Result<int> spawn(const SpawnOptions& options);

/// This process's environment without Troupe's internal variables, as "K=V".
std::vector<std::string> clean_environment();
std::vector<std::string> own_argv();
Result<UniqueFd> open_own_executable();

/// Raises the limit of open files to what is allowed.
void raise_file_limit();
/// For processes that live long and hold little (head, daemon): what a busy moment took goes back to the system.
void keep_heap_small();

}  // namespace troupe::node
