// What all kernels share: launching, sums over a warp and over a block.
//
// KCC-1  Blocks have a multiple of 32 threads, at most 1,024, and every thread of a block reaches block_sum and
//        block_max.
// KCC-2  Both give every thread the same value, added in an order that depends on the block's size only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/entries.h"

namespace troupe::kernels::cuda {

constexpr unsigned kWarp = 32;
constexpr unsigned kThreads = 256;
constexpr unsigned kAllLanes = 0xffffffffu;

template <class... P, class... A>
int launch(Call call, void (*kernel)(P...), dim3 grid, dim3 block, A... arguments) {
  if (grid.x == 0 || grid.y == 0) return 0;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = static_cast<cudaStream_t>(call.stream);
  return static_cast<int>(cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...));
}

__host__ __device__ constexpr std::size_t blocks_for(std::size_t count, std::size_t each) {
  return (count + each - 1) / each;
}

/// Blocks for a loop in which every thread goes on a grid further: enough to fill any chip, not one for each element.
inline unsigned grid_for(std::size_t count, std::size_t each = kThreads) {
  const std::size_t blocks = blocks_for(count, each);
  return static_cast<unsigned>(blocks < 4096 ? blocks : 4096);
}

__device__ inline std::size_t global_thread() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::size_t global_stride() { return std::size_t{gridDim.x} * blockDim.x; }

inline bool aligned16(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

template <class T>
__device__ inline T warp_sum(T value) {
  for (unsigned lane = kWarp / 2; lane > 0; lane /= 2)
    value += __shfl_xor_sync(kAllLanes, value, static_cast<int>(lane));
  return value;
}
__device__ inline float warp_max(float value) {
  for (unsigned lane = kWarp / 2; lane > 0; lane /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, static_cast<int>(lane)));
  return value;
}

template <class T>
__device__ inline T block_sum(T value) {
  __shared__ T partial[kWarp];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  value = warp_sum(value);
  __syncthreads();  // the sum before may still be read
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  return warp_sum(lane < blockDim.x / kWarp ? partial[lane] : T{0});
}
__device__ inline float block_max(float value) {
  __shared__ float partial[kWarp];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  value = warp_max(value);
  __syncthreads();
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  return warp_max(lane < blockDim.x / kWarp ? partial[lane] : -INFINITY);
}

/// Runs steps one after the other until one fails.
template <class... Steps>
int in_order(Steps... steps) {
  int status = 0;
  (void)((status = steps(), status == 0) && ...);
  return status;
}

}  // namespace troupe::kernels::cuda
