// Causal attention in float, the size of the scores never in memory.
//
// v1  One warp a query, lanes side by side over the head's channels: each key is one dot product (a sum over the
//     warp), and the softmax runs along: largest score so far, sum so far, output so far, the last two rescaled when
//     the first grows. Backward recalculates the probabilities from lse; dq by one warp a query, dk and dv by one warp
//     a key, so that nobody adds to another's memory and the order of every sum is fixed. Heads of up to 128 channels,
//     any number of them.
#include "kernels/cuda/common.cuh"

namespace troupe::kernels::cuda {
namespace {

constexpr unsigned kEach = 4;  // channels of a lane
constexpr std::size_t kWidestHead = kEach * kWarp;

struct Head {
  std::size_t width, stride;  // stride: from one position of q, k, v to the next
  float scale;
  const float *q, *k, *v;
};

__device__ inline Head head_of(const AttentionArguments& a, std::size_t index) {
  const std::size_t width = a.channels / a.heads, stride = 3 * a.channels;
  const float* q = static_cast<const float*>(a.qkv) + index / a.heads * a.time * stride + index % a.heads * width;
  return {width, stride, 1.0f / sqrtf(static_cast<float>(width)), q, q + a.channels, q + 2 * a.channels};
}

// The part of a row that a lane holds.
struct Slice {
  float values[kEach];
  __device__ static Slice zero() { return {}; }
  __device__ static Slice load(const float* row, std::size_t width) {
    Slice out{};
#pragma unroll
    for (unsigned e = 0; e < kEach; ++e) {
      const std::size_t c = e * kWarp + threadIdx.x % kWarp;
      if (c < width) out.values[e] = row[c];
    }
    return out;
  }
  __device__ void store(float* row, std::size_t width) const {
#pragma unroll
    for (unsigned e = 0; e < kEach; ++e) {
      const std::size_t c = e * kWarp + threadIdx.x % kWarp;
      if (c < width) row[c] = values[e];
    }
  }
  __device__ float dot(const Slice& other) const {
    float sum = 0;
#pragma unroll
    for (unsigned e = 0; e < kEach; ++e) sum += values[e] * other.values[e];
    return warp_sum(sum);
  }
  /// this = this * keep + other * factor
  __device__ void blend(float keep, float factor, const Slice& other) {
#pragma unroll
    for (unsigned e = 0; e < kEach; ++e) values[e] = values[e] * keep + other.values[e] * factor;
  }
};

// One warp for each of [batch * heads][time].
struct Place {
  std::size_t index, position;
};
__device__ inline bool place_of(const AttentionArguments& a, Place* place) {
  const std::size_t warp = global_thread() / kWarp;
  *place = {warp / a.time, warp % a.time};
  return warp < a.batch * a.heads * a.time;
}
// Where the row of a head starts in an array [batch][time][channels].
__device__ inline std::size_t out_row(const AttentionArguments& a, const Place& p) {
  return (p.index / a.heads * a.time + p.position) * a.channels + p.index % a.heads * (a.channels / a.heads);
}

__global__ void forward(AttentionArguments a) {
  Place at;
  if (!place_of(a, &at)) return;
  const Head h = head_of(a, at.index);
  const Slice q = Slice::load(h.q + at.position * h.stride, h.width);
  Slice out = Slice::zero();
  float largest = -INFINITY, sum = 0;
  for (std::size_t j = 0; j <= at.position; ++j) {
    const float score = h.scale * q.dot(Slice::load(h.k + j * h.stride, h.width));
    const float top = fmaxf(largest, score), keep = expf(largest - top), weight = expf(score - top);
    sum = sum * keep + weight;
    out.blend(keep, weight, Slice::load(h.v + j * h.stride, h.width));
    largest = top;
  }
  out.blend(1.0f / sum, 0.0f, out);
  out.store(static_cast<float*>(a.out) + out_row(a, at), h.width);
  if (threadIdx.x % kWarp == 0) a.lse[at.index * a.time + at.position] = largest + logf(sum);
}

// delta = sum of dout * out: what softmax's backward subtracts from every dp of the row.
__global__ void deltas(AttentionArguments a) {
  Place at;
  if (!place_of(a, &at)) return;
  const std::size_t width = a.channels / a.heads, row = out_row(a, at);
  const float dot = Slice::load(static_cast<const float*>(a.dout) + row, width)
                        .dot(Slice::load(static_cast<const float*>(a.out) + row, width));
  if (threadIdx.x % kWarp == 0) a.delta[at.index * a.time + at.position] = dot;
}

__global__ void backward_queries(AttentionArguments a) {
  Place at;
  if (!place_of(a, &at)) return;
  const Head h = head_of(a, at.index);
  const std::size_t row = at.index * a.time + at.position;
  const Slice q = Slice::load(h.q + at.position * h.stride, h.width);
  const Slice dout = Slice::load(static_cast<const float*>(a.dout) + out_row(a, at), h.width);
  Slice dq = Slice::zero();
  for (std::size_t j = 0; j <= at.position; ++j) {
    const Slice k = Slice::load(h.k + j * h.stride, h.width);
    const float p = expf(h.scale * q.dot(k) - a.lse[row]);
    const float dp = dout.dot(Slice::load(h.v + j * h.stride, h.width));
    dq.blend(1.0f, h.scale * p * (dp - a.delta[row]), k);
  }
  const std::ptrdiff_t place = h.q - static_cast<const float*>(a.qkv);
  dq.store(static_cast<float*>(a.dqkv) + place + at.position * h.stride, h.width);
}

__global__ void backward_keys(AttentionArguments a) {
  Place at;
  if (!place_of(a, &at)) return;
  const Head h = head_of(a, at.index);
  const Slice k = Slice::load(h.k + at.position * h.stride, h.width);
  const Slice v = Slice::load(h.v + at.position * h.stride, h.width);
  Slice dk = Slice::zero(), dv = Slice::zero();
  for (std::size_t i = at.position; i < a.time; ++i) {
    const std::size_t row = at.index * a.time + i;
    const Slice q = Slice::load(h.q + i * h.stride, h.width);
    const Slice dout = Slice::load(static_cast<const float*>(a.dout) + out_row(a, {at.index, i}), h.width);
    const float p = expf(h.scale * q.dot(k) - a.lse[row]);
    const float dp = dout.dot(v);
    dv.blend(1.0f, p, dout);
    dk.blend(1.0f, h.scale * p * (dp - a.delta[row]), q);
  }
  float* dqkv = static_cast<float*>(a.dqkv) + (h.q - static_cast<const float*>(a.qkv)) + at.position * h.stride;
  dk.store(dqkv + a.channels, h.width);
  dv.store(dqkv + 2 * a.channels, h.width);
}

bool fits(const AttentionArguments& a) {
  return a.heads != 0 && a.channels % a.heads == 0 && a.channels / a.heads <= kWidestHead;
}

int by_warps(Call call, void (*kernel)(AttentionArguments), const AttentionArguments& a) {
  const std::size_t warps = a.batch * a.heads * a.time;
  return launch(call, kernel, static_cast<unsigned>(blocks_for(warps * kWarp, kThreads)), kThreads, a);
}

}  // namespace

int attention_forward(Call call, const AttentionArguments* a) {
  return fits(*a) ? by_warps(call, forward, *a) : kInvalidValue;
}

int attention_backward(Call call, const AttentionArguments* a) {
  if (!fits(*a)) return kInvalidValue;
  return in_order([&] { return by_warps(call, deltas, *a); }, [&] { return by_warps(call, backward_queries, *a); },
                  [&] { return by_warps(call, backward_keys, *a); });
}

}  // namespace troupe::kernels::cuda
