// The launcher (zygote): the user's executable, started once for each job of a node, single-threaded; it forks
// workers on request.
//
//   started --LauncherReady--> waiting <--ForkRequest / Forked, child's end / Exited--> waiting
//        --socket closed--> ends its children with SIGKILL and exits
//
// It is the subreaper of its workers, so it also reaps what they leave behind. With more than one thread (a library
// that starts threads at load time) fork is not safe: each worker is then exec'd from the same executable.
//
// Thread rule: runs on the main thread of a process of its own.
//
// Invariants
//   LA-1  Each ForkRequest is answered by one Forked; each Forked without error is followed by one Exited.
//   LA-2  A worker dies with its launcher (PR_SET_PDEATHSIG: the launcher has one thread), the launcher with its
//         daemon.
//   LA-3  A forked worker holds no descriptor of the launcher but its own socket and standard streams.
#pragma once
#include "core/node/base/role_hooks.h"

namespace troupe::node {

/// Role "launcher". In a forked child it runs hooks.worker_main and exits; it returns only in the launcher itself.
int launcher_main(const RoleHooks& hooks);
/// Role "worker": one that was exec'd by a launcher with threads.
int exec_worker_main(const RoleHooks& hooks);

}  // namespace troupe::node
