// RoleHooks: what the roles of this executable that have no user code of their own (daemon, launcher) need of the
// runtime above.
//
// Thread rule: plain data; worker_main runs on the main thread of a worker, local_worker_main on a thread of its own.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "core/base/fd.h"
#include "core/wire/messages.h"

namespace troupe::node {

/// What a forked worker starts with. The socket speaks the bootstrap packets of wire/messages.h.
struct WorkerBoot {
  UniqueFd socket;
  std::uint32_t serial = 0;
  wire::ForkRequest request;
};

/// What the roles need to know from above.
struct RoleHooks {
  std::function<int(WorkerBoot)> worker_main;       ///< runs a worker; its return value is the exit code
  /// the same on a thread (start_local); its wait status, as of a process
  std::function<int(WorkerBoot)> local_worker_main;
  std::string registry_digest;                      ///< of the functions registered in this executable
};

}  // namespace troupe::node
