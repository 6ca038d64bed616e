// The part of CUDA that kernels/cuda uses, on the CPU: the same sources run in a test where no GPU is.
//
// A launch runs its blocks one after the other on the calling thread; the threads of a block are coroutines. A thread
// runs until it ends or waits; a barrier opens when every thread of the block (or of the warp) that still runs has come
// to it. So indices, barriers and sums are those of a device; time, races between barriers and the memory model are
// not. __shared__ memory is static: one launch at a time in a process. Memory of cudaMalloc starts out as NaNs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;  // of the thread that runs

using cudaError_t = int;
using cudaStream_t = void*;
using cudaEvent_t = void*;
inline constexpr cudaError_t cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInsufficientDriver = 35,
                             cudaErrorNoDevice = 100;
enum cudaMemcpyKind { cudaMemcpyDefault };
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};
struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount;
  std::size_t totalGlobalMem;
};

namespace emulation {

enum class Barrier { kBlock, kWarp };
/// Called by a kernel's thread.
void wait(Barrier barrier);
/// 64 bytes that the lanes of the running thread's warp share.
struct Slots {
  double lanes[32];
};
Slots& warp_slots();
/// Runs thread(argument) for every thread of every block.
void run(dim3 grid, dim3 block, void (*thread)(void*), void* argument);

}  // namespace emulation

inline void __syncthreads() { emulation::wait(emulation::Barrier::kBlock); }
inline void __syncwarp() { emulation::wait(emulation::Barrier::kWarp); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  static_assert(sizeof(T) <= sizeof(double));
  emulation::Slots& slots = emulation::warp_slots();
  const unsigned lane = threadIdx.x % 32;
  std::memcpy(&slots.lanes[lane], &value, sizeof(T));
  __syncwarp();
  T other;
  std::memcpy(&other, &slots.lanes[lane ^ static_cast<unsigned>(mask)], sizeof(T));
  __syncwarp();
  return other;
}
inline float atomicAdd(float* to, float value) {
  const float before = *to;
  *to += value;
  return before;
}

template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), A&&... arguments) {
  const unsigned threads = config->blockDim.x * config->blockDim.y * config->blockDim.z;
  if (threads == 0 || threads > 1024 || config->gridDim.y > 65535 || (sizeof(P) + ... + 0) > 4096)
    return cudaErrorInvalidValue;
  auto thread = [&] { kernel(static_cast<P>(arguments)...); };
  emulation::run(config->gridDim, config->blockDim, [](void* f) { (*static_cast<decltype(thread)*>(f))(); }, &thread);
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t status);
cudaError_t cudaGetDeviceCount(int* count);
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMalloc(void** pointer, std::size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);
