// What this process has for the nccl backend: the CUDA plug-in, a GPU, NCCL. Opened once, when first asked for, and kept until the
// process ends.
//
//   plug-in   TROUPE_CUDA_LIB, else libtroupe_cuda.so where the loader finds it, else beside the program
//   GPU       the one of several that LOCAL_RANK (torchrun) or OMPI_COMM_WORLD_LOCAL_RANK (mpirun) says; an actor sees only its own
//   NCCL      nccl_library.h
//
// Thread rule: any thread. The first call changes the environment (NCCL's variables): before threads of the user's read it.
#pragma once
#include <memory>
#include <string>

#include "collective/communicator.h"
#include "collective/gpu_device.h"
#include "collective/nccl_communicator.h"
#include <troupe/result.h>

namespace troupe::collective {

/// The table of the plug-in; an Error says where it was looked for.
Result<const CudaApi*> open_cuda_plugin();

/// The GPU of this process with what is there of NCCL, or why there is none. `index` -1: its own; else another one that it sees.
Result<std::shared_ptr<GpuDevice>> own_gpu(int index = -1);

/// over_nccl with what this process has.
std::unique_ptr<Communicator> over_own_gpu(std::unique_ptr<Communicator> control, const std::string& group, NcclScope scope, Patience& patience);

}  // namespace troupe::collective
