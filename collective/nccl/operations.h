// Operations as calls of NCCL. What NCCL has no call for is a group of sends and receives.
//
// Thread rule: on the launcher's thread, inside NcclComm::call.
#pragma once
#include <vector>

#include "collective/device/nccl_api.h"
#include <troupe/collective_types.h>

namespace troupe::collective {

/// The call or calls of NCCL for an operation; every pointer is device memory. Adds reduction operations that it made
/// to `made`, to be destroyed when the call is through.
int enqueue_on_nccl(const NcclApi& nccl, NcclHandle comm, const detail::Operation& operation, int rank, int ranks,
                    void* stream, std::vector<int>& made);

}  // namespace troupe::collective
