// Which memory an operation reads and writes on a rank, and on which side it lies: the host's or the GPU's.
//
// Thread rule: any thread.
#pragma once
#include <cstddef>

#include "collective/device/gpu_device.h"

namespace troupe::collective {

/// In elements. Some kinds of operation look at one end alone on some ranks.
struct Uses {
  std::size_t in = 0, out = 0;
  bool reads_output = false;  ///< broadcast on the root: the memory is both
};
Uses uses_of(const detail::Operation& operation, int rank);

enum class Side { kHost, kDevice, kBoth };
/// A rank without a single element says by what it passes where the others' memory is: a DeviceArray, even an empty
/// one, or any pointer to device memory. `device` null: this process has no GPU, and so no memory there.
Side side_of(const detail::Operation& operation, int rank, const GpuDevice* device);

}  // namespace troupe::collective
