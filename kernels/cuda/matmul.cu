// Matrix products of our own, for float and bfloat16 with float sums; cuBLASLt (cublaslt.cc) is the fast one.
//
// v1  One thread an element of C.
// v2  A block has a tile of 64 x 64, a thread 4 x 4 of it: each value read from memory is used 64 times, each read from
//     shared memory 4 times.
#include "kernels/cuda/common.cuh"

#include <cuda_bf16.h>

namespace troupe::kernels::cuda {
namespace {

__device__ inline float widen(float value) { return value; }
__device__ inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
template <class T>
__device__ T narrow(float value) {
  if constexpr (sizeof(T) == sizeof(float)) return value;
  else return __float2bfloat16(value);
}

template <class T>
__device__ float element(const void* data, std::size_t stride, bool transposed, std::size_t r, std::size_t c) {
  return widen(static_cast<const T*>(data)[transposed ? c * stride + r : r * stride + c]);
}

template <class T>
__device__ void finish(const MatmulArguments& a, std::size_t r, std::size_t c, float sum) {
  T* to = static_cast<T*>(a.c) + r * a.c_stride + c;
  if (a.bias != nullptr) sum += widen(static_cast<const T*>(a.bias)[c]);
  if (a.accumulate) sum += widen(*to);
  *to = narrow<T>(sum);
}

template <class T>
__global__ void plain(MatmulArguments a) {
  const std::size_t at = global_thread(), r = at / a.n, c = at % a.n;
  if (r >= a.m) return;
  float sum = 0;
  for (std::size_t k = 0; k < a.k; ++k)
    sum += element<T>(a.a, a.a_stride, a.a_transposed, r, k) * element<T>(a.b, a.b_stride, a.b_transposed, k, c);
  finish<T>(a, r, c, sum);
}

constexpr unsigned kTile = 64, kDepth = 16, kEach = 4, kSide = kTile / kEach;
template <class T>
__global__ void tiled(MatmulArguments a) {
  __shared__ float rows[kDepth][kTile + 1], columns[kDepth][kTile + 1];
  const std::size_t first_row = std::size_t{blockIdx.y} * kTile, first_column = std::size_t{blockIdx.x} * kTile;
  const unsigned y = threadIdx.x / kSide, x = threadIdx.x % kSide;
  float sums[kEach][kEach] = {};
  for (std::size_t begin = 0; begin < a.k; begin += kDepth) {
    for (unsigned i = threadIdx.x; i < kTile * kDepth; i += blockDim.x) {
      // Neighbouring threads take neighbouring memory, whichever way the factor lies.
      const unsigned ar = a.a_transposed ? i % kTile : i / kDepth, ak = a.a_transposed ? i / kTile : i % kDepth;
      const unsigned bc = a.b_transposed ? i / kDepth : i % kTile, bk = a.b_transposed ? i % kDepth : i / kTile;
      rows[ak][ar] = first_row + ar < a.m && begin + ak < a.k
                         ? element<T>(a.a, a.a_stride, a.a_transposed, first_row + ar, begin + ak) : 0.0f;
      columns[bk][bc] = first_column + bc < a.n && begin + bk < a.k
                            ? element<T>(a.b, a.b_stride, a.b_transposed, begin + bk, first_column + bc) : 0.0f;
    }
    __syncthreads();
    for (unsigned k = 0; k < kDepth; ++k) {
      float left[kEach], right[kEach];
#pragma unroll
      for (unsigned e = 0; e < kEach; ++e) {
        left[e] = rows[k][y + e * kSide];
        right[e] = columns[k][x + e * kSide];
      }
#pragma unroll
      for (unsigned i = 0; i < kEach; ++i)
#pragma unroll
        for (unsigned j = 0; j < kEach; ++j) sums[i][j] += left[i] * right[j];
    }
    __syncthreads();
  }
  for (unsigned i = 0; i < kEach; ++i) {
    for (unsigned j = 0; j < kEach; ++j) {
      const std::size_t r = first_row + y + i * kSide, c = first_column + x + j * kSide;
      if (r < a.m && c < a.n) finish<T>(a, r, c, sums[i][j]);
    }
  }
}

template <class T>
int run(Call call, const MatmulArguments& a) {
  if (call.version == 1)
    return launch(call, plain<T>, static_cast<unsigned>(blocks_for(a.m * a.n, kThreads)), kThreads, a);
  // The tallest factors may have more than 65,535 tiles: those are cut.
  for (std::size_t done = 0; done < a.m;) {
    MatmulArguments part = a;
    part.m = a.m - done < 65535 * kTile ? a.m - done : 65535 * kTile;
    const std::size_t skipped = done * (a.a_transposed ? 1 : a.a_stride);
    part.a = static_cast<const T*>(a.a) + skipped;
    part.c = static_cast<T*>(a.c) + done * a.c_stride;
    const dim3 grid(static_cast<unsigned>(blocks_for(a.n, kTile)), static_cast<unsigned>(blocks_for(part.m, kTile)));
    const int status = launch(call, tiled<T>, grid, kSide * kSide, part);
    if (status != 0) return status;
    done += part.m;
  }
  return 0;
}

}  // namespace

int matmul(Call call, const MatmulArguments* a) {
  if (a->type != DType::kF32 && a->type != DType::kBF16) return kInvalidValue;
  if (a->m == 0 || a->n == 0) return 0;
  if ((call.version == 0 || call.version >= 3) && cublaslt_is_open() && a->k != 0) {
    const int status = cublaslt_matmul(call, a);
    if (status != kNotSupported) return status;  // what it has no algorithm for (odd strides) is done here
  }
  return a->type == DType::kF32 ? run<float>(call, *a) : run<__nv_bfloat16>(call, *a);
}

}  // namespace troupe::kernels::cuda
