// On which GPU a learner calculates.
//
// RunConfig::device is "cpu", or "cuda": the first GPU that this process sees, or the one that a launcher's local rank
// names. The runtime gives GPUs to actors; the learner's actor then says "cuda:N" by with_gpu().
#pragma once

#include <optional>
#include <span>

#include "apps/rl/config/run_config.h"
#include "apps/rl/networks/network.h"

namespace rl {

/// None: the CPU. Opens cuBLASLt, where it is, for the products. NotFoundError, thrown, where there is no plug-in or no
/// GPU, and as CU-1 (kernels/cuda/cuda.h).
[[nodiscard]] std::optional<Gpu> learner_gpu(const RunConfig& config);

/// The configuration of a learner to which the runtime has given these GPUs: its device, if that is "cuda", is the
/// first.
[[nodiscard]] RunConfig with_gpu(RunConfig config, std::span<const int> gpu_ids);

}  // namespace rl
