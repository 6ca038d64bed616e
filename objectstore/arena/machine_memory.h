// How much memory this process may still take: the machine's, or what its cgroups leave, whichever is less.
//
// Page cache of files counts as available, for the machine as for a cgroup: the kernel drops it before anything is
// refused. (A container that has read its data set shows a `current` at its limit and is not short of memory.) Shared
// memory, this store's own pages among it, counts as used.
//
// Both versions of cgroups are read: version 2 (memory.max, memory.current, memory.stat) and version 1 (the
// controller's memory.limit_in_bytes, memory.usage_in_bytes, memory.stat), the process's own group and those above it.
// A group whose folder is not to be seen from here (a container's mount shows only its own part) is looked for at the
// mount's root.
//
// Thread rule: any thread. Cost: a dozen small files, about 0.1 ms.
#pragma once
#include <cstdint>
#include <string>

namespace troupe::store {

struct MemoryFiles {
  std::string meminfo = "/proc/meminfo";
  std::string own_cgroups = "/proc/self/cgroup";
  std::string mount = "/sys/fs/cgroup";            ///< version 2
  std::string mount_v1 = "/sys/fs/cgroup/memory";  ///< version 1
};

std::uint64_t machine_memory_available(const MemoryFiles& files = {});

}  // namespace troupe::store
