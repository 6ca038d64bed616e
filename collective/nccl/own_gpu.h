// What this process has for the nccl backend: the CUDA plug-in, a GPU, NCCL. Opened once, when first asked for, and
// kept until the process ends.
//
//   plug-in   kernels/cuda/plugin_file.h
//   GPU       the one of several that the launcher's local rank says (there, too); an actor sees only its own
//   NCCL      nccl/library.h
//
// Thread rule: any thread. The first call changes the environment (NCCL's variables): before threads of the user's read
// it.
#pragma once
#include <memory>
#include <string>

#include "collective/base/communicator.h"
#include "collective/device/gpu_device.h"
#include "collective/nccl/communicator.h"
#include <troupe/result.h>

namespace troupe::collective {

/// The table of the plug-in. NotFoundError: where it was looked for; InvalidArgumentError: of another version.
Result<const CudaApi*> open_cuda_plugin();

/// The GPU of this process with what is there of NCCL, or why there is none. `index` -1: its own; else another one that
/// it sees.
Result<std::shared_ptr<GpuDevice>> own_gpu(int index = -1);

/// over_nccl with what this process has.
std::unique_ptr<Communicator> over_own_gpu(std::unique_ptr<Communicator> control, const std::string& group,
                                           NcclScope scope, Patience& patience);

}  // namespace troupe::collective
