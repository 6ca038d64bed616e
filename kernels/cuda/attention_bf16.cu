// Causal attention in bfloat16 on tensor cores, for heads of up to 64 channels (narrower ones are filled up with
// zeros).
//
// v1  A block has kRows queries of one head, each of its warps 16 of them; keys and values come in tiles of kTile,
//     read once for all warps. Products are 16 x 16 x 16 on tensor cores with float sums: about sixteen times the rate
//     of plain multiply-adds. Scores, weights and outputs of a warp's 16 rows are its own part of shared memory, so its
//     softmax needs no barrier of the block. Backward is one kernel twice. Rows are queries (giving dq) or keys (giving
//     dk and dv), columns the other; scores are recalculated from lse, nothing is added atomically, and the order of
//     every sum is fixed (CK-4).
//
// Shared rows are padded by 16 bytes, so that the 16 rows of a product lie in different banks; every tile starts at a
// multiple of 32 bytes, as the products' loads need.
#include "kernels/cuda/common.cuh"

#include <cuda_bf16.h>
#include <mma.h>

namespace troupe::kernels::cuda {
namespace {

using Half = __nv_bfloat16;
namespace wmma = nvcuda::wmma;

constexpr unsigned kSide = 16, kWidth = kNarrowHead, kTile = 32, kRows = 64, kWarps = kRows / kSide;
constexpr unsigned kHalfStride = kWidth + 8, kOutStride = kWidth + 4;      // rows of kWidth: bfloat16, float
constexpr unsigned kWeightStride = kTile + 8, kScoreStride = kTile + 4;    // rows of kTile: bfloat16, float
constexpr unsigned kSteps = kWidth / kSide, kTileSteps = kTile / kSide;

using RowFragment = wmma::fragment<wmma::matrix_a, kSide, kSide, kSide, Half, wmma::row_major>;
using ColumnFragment = wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, Half, wmma::row_major>;
using TransposedFragment = wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, Half, wmma::col_major>;
using SumFragment = wmma::fragment<wmma::accumulator, kSide, kSide, kSide, float>;

// Rows of one head in memory: [time] rows, `stride` apart.
struct Rows {
  const Half* data;
  std::size_t stride;
};

struct Place {
  std::size_t index, width, qkv_offset, out_offset;  // of head `index`
  float scale;
};

__device__ inline Place place_of(const AttentionArguments& a, std::size_t index) {
  const std::size_t width = a.channels / a.heads, sequence = index / a.heads, head = index % a.heads;
  return {index, width, sequence * a.time * 3 * a.channels + head * width,
          sequence * a.time * a.channels + head * width, 1.0f / sqrtf(static_cast<float>(width))};
}
__device__ inline Rows qkv_rows(const AttentionArguments& a, const Place& p, unsigned which) {
  return {static_cast<const Half*>(a.qkv) + p.qkv_offset + which * a.channels, 3 * a.channels};
}
__device__ inline Rows dout_rows(const AttentionArguments& a, const Place& p) {
  return {static_cast<const Half*>(a.dout) + p.out_offset, a.channels};
}

// Rows first .. first + count of a head into shared memory, zero beyond time and width. By all threads of the block.
__device__ inline void stage(Half* to, const Rows& from, std::size_t first, unsigned count, std::size_t time,
                             std::size_t width) {
  for (unsigned i = threadIdx.x; i < count * kWidth; i += blockDim.x) {
    const unsigned row = i / kWidth, c = i % kWidth;
    const bool there = first + row < time && c < width;
    to[row * kHalfStride + c] = there ? from.data[(first + row) * from.stride + c] : __float2bfloat16(0.0f);
  }
}

// to[16][kTile] = rows * columns^T.
__device__ inline void products(float* to, const RowFragment (&rows)[kSteps], const Half* columns) {
  for (unsigned tile = 0; tile < kTileSteps; ++tile) {
    SumFragment sum;
    wmma::fill_fragment(sum, 0.0f);
#pragma unroll
    for (unsigned step = 0; step < kSteps; ++step) {
      TransposedFragment column;
      wmma::load_matrix_sync(column, columns + tile * kSide * kHalfStride + step * kSide, kHalfStride);
      wmma::mma_sync(sum, rows[step], column, sum);
    }
    wmma::store_matrix_sync(to + tile * kSide, sum, kScoreStride, wmma::mem_row_major);
  }
}

// sums[16][kWidth] += weights[16][kTile] * columns[kTile][kWidth].
__device__ inline void accumulate(SumFragment (&sums)[kSteps], const Half* weights, const Half* columns) {
#pragma unroll
  for (unsigned tile = 0; tile < kTileSteps; ++tile) {
    RowFragment weight;
    wmma::load_matrix_sync(weight, weights + tile * kSide, kWeightStride);
#pragma unroll
    for (unsigned step = 0; step < kSteps; ++step) {
      ColumnFragment column;
      wmma::load_matrix_sync(column, columns + tile * kSide * kHalfStride + step * kSide, kHalfStride);
      wmma::mma_sync(sums[step], weight, column, sums[step]);
    }
  }
}

__device__ inline void load_rows(RowFragment (&rows)[kSteps], const Half* staged) {
#pragma unroll
  for (unsigned step = 0; step < kSteps; ++step) wmma::load_matrix_sync(rows[step], staged + step * kSide, kHalfStride);
}

__global__ void __launch_bounds__(kWarps* kWarp) forward(AttentionArguments a) {
  alignas(128) __shared__ Half keys[kTile * kHalfStride];
  alignas(128) __shared__ Half values[kTile * kHalfStride];
  alignas(128) __shared__ float all_scores[kRows * kScoreStride];
  alignas(128) __shared__ Half all_weights[kRows * kWeightStride];
  alignas(128) __shared__ float all_outs[kRows * kOutStride];  // holds the queries first
  static_assert(sizeof(all_outs) >= kRows * kHalfStride * sizeof(Half));
  const Place p = place_of(a, blockIdx.y);
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const std::size_t first = std::size_t{blockIdx.x} * kRows;

  auto* queries = reinterpret_cast<Half*>(all_outs);
  stage(queries, qkv_rows(a, p, 0), first, kRows, a.time, p.width);
  __syncthreads();
  RowFragment query[kSteps];
  load_rows(query, queries + warp * kSide * kHalfStride);
  __syncthreads();
  float* scores = all_scores + warp * kSide * kScoreStride;
  Half* weights = all_weights + warp * kSide * kWeightStride;
  float* outs = all_outs + warp * kSide * kOutStride;
  for (unsigned i = lane; i < kSide * kOutStride; i += kWarp) outs[i] = 0.0f;

  // Two lanes a row: the even one has the front half of its columns.
  const unsigned row = lane / 2, half = lane % 2;
  const std::size_t position = first + warp * kSide + row;
  float largest = -INFINITY, sum = 0;
  const std::size_t last = first + kRows < a.time ? first + kRows : a.time;
  for (std::size_t begin = 0; begin < last; begin += kTile) {
    __syncthreads();  // the tiles before are done with
    stage(keys, qkv_rows(a, p, 1), begin, kTile, a.time, p.width);
    stage(values, qkv_rows(a, p, 2), begin, kTile, a.time, p.width);
    __syncthreads();
    if (begin > first + warp * kSide + kSide - 1) continue;  // all of this warp's queries lie before these keys
    products(scores, query, keys);
    __syncwarp();
    float* my_scores = scores + row * kScoreStride + half * (kTile / 2);
    Half* my_weights = weights + row * kWeightStride + half * (kTile / 2);
    const std::size_t my_first = begin + half * (kTile / 2);
    float top = largest;
    for (unsigned c = 0; c < kTile / 2; ++c)
      if (my_first + c <= position) top = fmaxf(top, p.scale * my_scores[c]);
    top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
    const float keep = expf(largest - top);
    float part = 0;
    for (unsigned c = 0; c < kTile / 2; ++c) {
      const float weight = my_first + c <= position ? expf(p.scale * my_scores[c] - top) : 0.0f;
      part += weight;
      my_weights[c] = __float2bfloat16(weight);
    }
    part += __shfl_xor_sync(kAllLanes, part, 1);
    sum = sum * keep + part;
    largest = top;
    float* my_outs = outs + row * kOutStride + half * (kWidth / 2);
    for (unsigned c = 0; c < kWidth / 2; ++c) my_outs[c] *= keep;
    __syncwarp();
    SumFragment total[kSteps];
#pragma unroll
    for (unsigned step = 0; step < kSteps; ++step)
      wmma::load_matrix_sync(total[step], outs + step * kSide, kOutStride, wmma::mem_row_major);
    accumulate(total, weights, values);
#pragma unroll
    for (unsigned step = 0; step < kSteps; ++step)
      wmma::store_matrix_sync(outs + step * kSide, total[step], kOutStride, wmma::mem_row_major);
    __syncwarp();
  }
  if (position >= a.time) return;
  Half* to = static_cast<Half*>(a.out) + p.out_offset + position * a.channels;
  const float* from = outs + row * kOutStride;
  for (std::size_t c = half; c < p.width; c += 2) to[c] = __float2bfloat16(from[c] / sum);
  if (half == 0) a.lse[p.index * a.time + position] = largest + logf(sum);
}

// One warp a row.
__global__ void deltas(AttentionArguments a) {
  const std::size_t warp = global_thread() / kWarp;
  if (warp >= a.batch * a.heads * a.time) return;
  const Place p = place_of(a, warp / a.time);
  const std::size_t row = p.out_offset + warp % a.time * a.channels;
  float dot = 0;
  for (std::size_t c = threadIdx.x % kWarp; c < p.width; c += kWarp)
    dot += __bfloat162float(static_cast<const Half*>(a.dout)[row + c]) *
           __bfloat162float(static_cast<const Half*>(a.out)[row + c]);
  dot = warp_sum(dot);
  if (threadIdx.x % kWarp == 0) a.delta[warp] = dot;
}

// A warp's 16 rows of sums as bfloat16 rows of dqkv, through its scores' place in shared memory.
__device__ inline void write_rows(const AttentionArguments& a, const Place& p, SumFragment (&sums)[kSteps],
                                  float* scratch, std::size_t first, unsigned which) {
  Half* to = static_cast<Half*>(a.dqkv) + p.qkv_offset + which * a.channels;
#pragma unroll
  for (unsigned step = 0; step < kSteps; ++step) {
    __syncwarp();
    wmma::store_matrix_sync(scratch, sums[step], kScoreStride, wmma::mem_row_major);
    __syncwarp();
    for (unsigned i = threadIdx.x % kWarp; i < kSide * kSide; i += kWarp) {
      const std::size_t position = first + i / kSide, c = step * kSide + i % kSide;
      if (position < a.time && c < p.width)
        to[position * 3 * a.channels + c] = __float2bfloat16(scratch[i / kSide * kScoreStride + i % kSide]);
    }
  }
}

// kKeys false: rows are queries (Q and dout), columns keys (K and V): dq = sum ds K.
// kKeys true:  rows are keys (K and V), columns queries (Q and dout): dk = sum ds^T Q, dv = sum p^T dout.
template <bool kKeys>
__global__ void __launch_bounds__(kWarps* kWarp) backward(AttentionArguments a) {
  alignas(128) __shared__ Half tiles[2 * kTile * kHalfStride];  // holds the block's own rows first, half after half
  alignas(128) __shared__ float all_scores[2][kRows * kScoreStride];
  alignas(128) __shared__ Half all_weights[2][kRows * kWeightStride];
  static_assert(kRows <= 2 * kTile);
  const Place p = place_of(a, blockIdx.y);
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const std::size_t first = std::size_t{blockIdx.x} * kRows, mine = first + warp * kSide;
  const Rows q = qkv_rows(a, p, 0), k = qkv_rows(a, p, 1), v = qkv_rows(a, p, 2), dout = dout_rows(a, p);

  RowFragment row_score[kSteps], row_gradient[kSteps];
  stage(tiles, kKeys ? k : q, first, kRows, a.time, p.width);
  __syncthreads();
  load_rows(row_score, tiles + warp * kSide * kHalfStride);
  __syncthreads();
  stage(tiles, kKeys ? v : dout, first, kRows, a.time, p.width);
  __syncthreads();
  load_rows(row_gradient, tiles + warp * kSide * kHalfStride);

  SumFragment by_score[kSteps], by_weight[kSteps];
#pragma unroll
  for (unsigned step = 0; step < kSteps; ++step) {
    wmma::fill_fragment(by_score[step], 0.0f);
    wmma::fill_fragment(by_weight[step], 0.0f);
  }
  float* scores = all_scores[0] + warp * kSide * kScoreStride;
  float* gradients = all_scores[1] + warp * kSide * kScoreStride;
  Half* weights = all_weights[0] + warp * kSide * kWeightStride;
  Half* changes = all_weights[1] + warp * kSide * kWeightStride;
  Half *tile_score = tiles, *tile_gradient = tiles + kTile * kHalfStride;

  const std::size_t begin = kKeys ? first / kTile * kTile : 0;
  const std::size_t end = kKeys || first + kRows > a.time ? a.time : first + kRows;
  for (std::size_t column = begin; column < end; column += kTile) {
    __syncthreads();
    stage(tile_score, kKeys ? q : k, column, kTile, a.time, p.width);
    stage(tile_gradient, kKeys ? dout : v, column, kTile, a.time, p.width);
    __syncthreads();
    products(scores, row_score, tile_score);
    products(gradients, row_gradient, tile_gradient);
    __syncwarp();
    for (unsigned i = lane; i < kSide * kTile; i += kWarp) {
      const unsigned r = i / kTile, c = i % kTile;
      const std::size_t query = kKeys ? column + c : mine + r, key = kKeys ? mine + r : column + c;
      float weight = 0, change = 0;
      if (key <= query && query < a.time) {
        const std::size_t at = p.index * a.time + query;
        weight = expf(p.scale * scores[r * kScoreStride + c] - a.lse[at]);
        change = p.scale * weight * (gradients[r * kScoreStride + c] - a.delta[at]);
      }
      weights[r * kWeightStride + c] = __float2bfloat16(weight);
      changes[r * kWeightStride + c] = __float2bfloat16(change);
    }
    __syncwarp();
    accumulate(by_score, changes, tile_score);
    if (kKeys) accumulate(by_weight, weights, tile_gradient);
    __syncwarp();
  }
  write_rows(a, p, by_score, scores, mine, kKeys ? 1 : 0);
  if (kKeys) write_rows(a, p, by_weight, scores, mine, 2);
}

bool fits(const AttentionArguments& a) {
  return a.heads != 0 && a.channels % a.heads == 0 && a.channels / a.heads <= kNarrowHead;
}

int by_blocks(Call call, void (*kernel)(AttentionArguments), const AttentionArguments& a) {
  const dim3 grid(static_cast<unsigned>(blocks_for(a.time, kRows)), static_cast<unsigned>(a.batch * a.heads));
  return launch(call, kernel, grid, kWarps * kWarp, a);
}

}  // namespace

int attention_bf16_forward(Call call, const AttentionArguments* a) {
  return fits(*a) ? by_blocks(call, forward, *a) : kInvalidValue;
}

int attention_bf16_backward(Call call, const AttentionArguments* a) {
  if (!fits(*a)) return kInvalidValue;
  return in_order(
      [&] {
        const std::size_t warps = a->batch * a->heads * a->time;
        return launch(call, deltas, static_cast<unsigned>(blocks_for(warps * kWarp, kThreads)), kThreads, *a);
      },
      [&] { return by_blocks(call, backward<false>, *a); }, [&] { return by_blocks(call, backward<true>, *a); });
}

}  // namespace troupe::kernels::cuda
