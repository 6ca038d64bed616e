// Formation: how the ranks of a group will exchange bytes, from where they are.
//
//   one node                                         shm: one memory
//   several nodes, one rank on each                  tcp
//   several nodes, two or more ranks on one of them  hier: a memory on each such node, sockets between
//
// Beside that, NCCL for memory of devices where nothing was asked for and every rank holds a GPU. Whether it is there
// the ranks find out when they enter (nccl/communicator.h).
//
// Locality is the node's id, never a host name: two nodes of one machine are two nodes.
//
// Pure; any thread.
//
// Invariants
//   FM-1  Every node with two or more ranks has one memory in a plan of shm or hier, made by the lowest rank there;
//         with shm a single rank has one as well.
//   FM-2  What is asked for is what comes, or InvalidArgumentError that names rank, actor and node that forbid it.
//   FM-3  A group over NCCL has the links that kAuto gives, as its control links (nccl/communicator.h).
//   FM-4  A rank without a GPU, or a backend that was asked for, means no NCCL beside: nothing is looked for, and
//         nobody waits.
#pragma once
#include <string>
#include <vector>

#include "collective/group/registry.h"

namespace troupe::collective {

/// The ranks of one node that share memory, ascending.
struct MemoryPlan {
  std::string node;
  std::vector<int> ranks;
};

struct FormationPlan {
  Backend backend = Backend::kShm;
  std::vector<MemoryPlan> memories;
};

/// Is there to be NCCL beside the links of the plan?
bool nccl_beside(const std::vector<GroupMember>& members, Backend asked);

Result<FormationPlan> plan_formation(const std::vector<GroupMember>& members, Backend asked);

/// What TROUPE_COLLECTIVE_BACKEND says; empty: kAuto. InvalidArgumentError that lists the names.
Result<Backend> backend_named(const std::string& name);

}  // namespace troupe::collective
