// FakeCuda as a plug-in: a program whose TROUPE_CUDA_LIB names it has GPUs in the memory of the CPU. Memory of one
// process cannot be read by another: TROUPE_DEVICE_IPC=0.
#include "tests/collective/fake_cuda.h"

extern "C" __attribute__((visibility("default"))) const troupe::collective::CudaApi* troupe_cuda_api(
    std::uint32_t abi) {
  return abi == troupe::collective::kCudaApiAbi ? &troupe::collective::testing::FakeCuda::api() : nullptr;
}
