// Embedding, AdamW, the global norm, and the scans of reinforcement learning.
//
// embedding  v1 one thread a channel walks the positions in order (EM-2). v2 one thread an element:
//            positions go side by side, and dwte is added to atomically, in any order (CK-4); forward moves 16 bytes a
//            turn.
// adamw      v1 one launch a tensor. v2 one launch for many tensors: a model has hundreds of small ones, and
//            a launch costs more than most of them.
// norm       v1 one thread a chain reads memory with gaps. v2 a block reads whole lines into shared memory first. Both
//            add in the order of KO-2: the same bits as on the CPU.
// scans      v1 one thread an environment walks back over all steps. v2 the steps are cut into kParts parts, which are
//            walked side by side: a step is x -> delta + factor x, so a part is one such map, whatever its length. Each
//            part finds its map, takes the value that the parts behind it give, and walks again.
#include "kernels/cuda/common.cuh"
#include "kernels/cpu/optimizer/optimizer.h"

#include <cuda_bf16.h>

#include <cmath>

namespace troupe::kernels::cuda {
namespace {

// --- embedding
template <class T>
__global__ void embedding_elements(std::size_t count, std::size_t time, std::size_t channels,
                                   const std::int32_t* tokens, const T* wte, const T* wpe, T* y) {
  for (std::size_t i = global_thread(); i < count; i += global_stride()) {
    const std::size_t at = i / channels, c = i % channels;
    T value = wte[static_cast<std::size_t>(tokens[at]) * channels + c];
    const T position = wpe[at % time * channels + c];
    if constexpr (sizeof(T) == sizeof(float)) {
      value += position;
    } else {
      value.x += position.x;
      value.y += position.y;
      value.z += position.z;
      value.w += position.w;
    }
    y[i] = value;
  }
}

__global__ void embedding_gradient_plain(std::size_t positions, std::size_t time, std::size_t channels,
                                         const std::int32_t* tokens, const float* dy, float* dwte, float* dwpe) {
  const std::size_t c = global_thread();
  if (c >= channels) return;
  for (std::size_t at = 0; at < positions; ++at) {
    const float g = dy[at * channels + c];
    dwte[static_cast<std::size_t>(tokens[at]) * channels + c] += g;
    dwpe[at % time * channels + c] += g;
  }
}

__global__ void token_gradient(std::size_t count, std::size_t channels, const std::int32_t* tokens, const float* dy,
                               float* dwte) {
  for (std::size_t i = global_thread(); i < count; i += global_stride())
    atomicAdd(dwte + static_cast<std::size_t>(tokens[i / channels]) * channels + i % channels, dy[i]);
}

__global__ void position_gradient(std::size_t batch, std::size_t count, const float* dy, float* dwpe) {
  for (std::size_t i = global_thread(); i < count; i += global_stride()) {
    float sum = dwpe[i];
    for (std::size_t b = 0; b < batch; ++b) sum += dy[b * count + i];
    dwpe[i] = sum;
  }
}

// --- AdamW
constexpr unsigned kTensorsMax = 48;   // of one launch: their list is a kernel parameter, 4 KiB at most
constexpr std::size_t kChunk = 4096;   // elements of one block

struct TensorList {
  AdamwTensor tensors[kTensorsMax];
  std::uint32_t first_block[kTensorsMax + 1];
  std::uint32_t count;
};
static_assert(sizeof(TensorList) < 3800);

struct AdamwConstants {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, inverse_sqrt_correction2, epsilon, keep_decayed;
  double grad_scale;
  const double* device_scale;
};

__global__ void adamw_chunks(TensorList list, AdamwConstants k) {
  std::uint32_t which = 0;
  while (which + 1 < list.count && list.first_block[which + 1] <= blockIdx.x) ++which;
  const AdamwTensor& t = list.tensors[which];
  const std::size_t begin = std::size_t{blockIdx.x - list.first_block[which]} * kChunk;
  const std::size_t end = begin + kChunk < t.count ? begin + kChunk : t.count;
  const auto scale = static_cast<float>(k.grad_scale * (k.device_scale != nullptr ? *k.device_scale : 1.0));
  const float keep = t.decayed != 0 ? k.keep_decayed : 1.0f;
  auto* working = static_cast<__nv_bfloat16*>(t.working_copy);
  for (std::size_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const float grad = t.grads[i] * scale;
    const float m = k.beta1 * t.first_moment[i] + k.one_minus_beta1 * grad;
    const float v = k.beta2 * t.second_moment[i] + k.one_minus_beta2 * grad * grad;
    const float p = t.params[i] * keep - k.step_size * m / (sqrtf(v) * k.inverse_sqrt_correction2 + k.epsilon);
    t.first_moment[i] = m;
    t.second_moment[i] = v;
    t.params[i] = p;
    if (working != nullptr) working[i] = __float2bfloat16(p);
  }
}

// --- global norm
__device__ inline double square(float value) { return static_cast<double>(value) * static_cast<double>(value); }

// Four neighbouring threads are the four chains of one block of kNormBlock elements.
__device__ inline void add_chains(double chain, std::size_t block, std::size_t blocks, double* sums) {
  const double a = chain + __shfl_xor_sync(kAllLanes, chain, 1);  // chains 0 + 1 and 2 + 3
  const double all = a + __shfl_xor_sync(kAllLanes, a, 2);
  if (threadIdx.x % 4 == 0 && block < blocks) sums[block] = all;
}

__global__ void square_sums_plain(std::size_t count, std::size_t blocks, const float* values, double* sums) {
  const std::size_t block = global_thread() / 4;
  double chain = 0;
  for (std::size_t i = threadIdx.x % 4; i < kNormBlock; i += 4) {
    const std::size_t at = block * kNormBlock + i;
    if (at < count) chain += square(values[at]);
  }
  add_chains(chain, block, blocks, sums);
}

constexpr unsigned kNormThreads = 128;               // 32 blocks of 4 chains
constexpr unsigned kNormRows = kNormThreads / 4, kNormColumns = 64;
__global__ void square_sums_staged(std::size_t count, std::size_t blocks, const float* values, double* sums) {
  __shared__ float staged[kNormRows][kNormColumns + 1];  // one more: chains of different blocks meet in different banks
  const std::size_t first = std::size_t{blockIdx.x} * kNormRows;
  const unsigned row = threadIdx.x / 4;
  double chain = 0;
  for (std::size_t begin = 0; begin < kNormBlock; begin += kNormColumns) {
    for (unsigned i = threadIdx.x; i < kNormRows * kNormColumns; i += kNormThreads) {
      const std::size_t at = (first + i / kNormColumns) * kNormBlock + begin + i % kNormColumns;
      staged[i / kNormColumns][i % kNormColumns] = at < count ? values[at] : 0.0f;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x % 4; i < kNormColumns; i += 4) chain += square(staged[row][i]);
    __syncthreads();
  }
  add_chains(chain, first + row, blocks, sums);
}

// One block: memory is read side by side, the sums are added one after the other.
__global__ void norm_of_sums(std::size_t blocks, const double* sums, double max_norm, double* result) {
  __shared__ double staged[1024];
  double total = 0;
  for (std::size_t begin = 0; begin < blocks; begin += 1024) {
    for (std::size_t i = threadIdx.x; i < 1024; i += blockDim.x) staged[i] = begin + i < blocks ? sums[begin + i] : 0.0;
    __syncthreads();
    if (threadIdx.x == 0)
      for (unsigned i = 0; i < 1024 && begin + i < blocks; ++i) total += staged[i];
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const double norm = sqrt(total), clip = max_norm / (norm + 1e-6);
  result[0] = norm;
  result[1] = clip < 1.0 ? clip : 1.0;
}

// --- scans. A recursion gives step i the map x -> delta + factor x, and says what to do with the result.
struct Map {
  float delta, factor;
};

struct Gae {
  GaeArguments a;
  __device__ Map at(std::size_t t, std::size_t n) const {
    const std::size_t i = t * a.envs + n;
    const bool terminated = a.terminated[i] != 0, ended = terminated || a.truncated[i] != 0, last = t + 1 == a.steps;
    const float following = ended ? a.final_value[i] : last ? a.last_value[n] : a.value[i + a.envs];
    const auto gamma = static_cast<float>(a.gamma);
    return {a.reward[i] + (terminated ? 0.0f : gamma * following) - a.value[i],
            ended || last ? 0.0f : static_cast<float>(a.gamma * a.lambda)};
  }
  __device__ void store(std::size_t t, std::size_t n, float, float x) const {
    const std::size_t i = t * a.envs + n;
    a.advantage[i] = x;
    a.returns[i] = x + a.value[i];
  }
};

// x is vs - value: 0 behind the last step.
struct Vtrace {
  VtraceArguments a;
  __device__ float rho(std::size_t i) const { return expf(a.target_log_prob[i] - a.behaviour_log_prob[i]); }
  __device__ float next_value(std::size_t t, std::size_t n) const {
    return t + 1 == a.steps ? a.bootstrap_value[n] : a.value[(t + 1) * a.envs + n];
  }
  __device__ Map at(std::size_t t, std::size_t n) const {
    const std::size_t i = t * a.envs + n;
    const float r = rho(i);
    return {fminf(static_cast<float>(a.rho_bar), r) * (a.reward[i] + a.discount[i] * next_value(t, n) - a.value[i]),
            a.discount[i] * static_cast<float>(a.lambda) * fminf(static_cast<float>(a.c_bar), r)};
  }
  __device__ void store(std::size_t t, std::size_t n, float behind, float x) const {
    const std::size_t i = t * a.envs + n;
    const float next_vs = next_value(t, n) + behind;
    a.vs[i] = a.value[i] + x;
    a.pg_advantage[i] =
        fminf(static_cast<float>(a.pg_rho_bar), rho(i)) * (a.reward[i] + a.discount[i] * next_vs - a.value[i]);
  }
};

template <class R>
__device__ void walk_back(const R& r, std::size_t begin, std::size_t end, std::size_t n, float x) {
  for (std::size_t t = end; t-- > begin;) {
    const Map map = r.at(t, n);
    const float behind = x;
    x = map.delta + map.factor * x;
    r.store(t, n, behind, x);
  }
}

template <class R>
__global__ void scan_plain(R r) {
  const std::size_t n = global_thread();
  if (n < r.a.envs) walk_back(r, 0, r.a.steps, n, 0.0f);
}

constexpr unsigned kParts = 16;
template <class R>
__global__ void scan_parts(R r) {
  __shared__ Map maps[kParts][kWarp];
  const unsigned lane = threadIdx.x % kWarp, part = threadIdx.x / kWarp;
  const std::size_t n = std::size_t{blockIdx.x} * kWarp + lane;
  const std::size_t begin = r.a.steps * part / kParts, end = r.a.steps * (part + 1) / kParts;
  if (n < r.a.envs) {
    Map all{0.0f, 1.0f};
    for (std::size_t t = end; t-- > begin;) {
      const Map map = r.at(t, n);
      all = {map.delta + map.factor * all.delta, map.factor * all.factor};
    }
    maps[part][lane] = all;
  }
  __syncthreads();
  if (n >= r.a.envs) return;
  float x = 0;
  for (unsigned behind = kParts - 1; behind > part; --behind)
    x = maps[behind][lane].delta + maps[behind][lane].factor * x;
  walk_back(r, begin, end, n, x);
}

template <class R>
int scan(Call call, const R& r) {
  // A short rollout, or one that fills the chip by its environments alone, has nothing to gain.
  const bool plain = call.version == 1 || (call.version == 0 && (r.a.steps < 2 * kParts || r.a.envs > 65536));
  if (plain) return launch(call, scan_plain<R>, static_cast<unsigned>(blocks_for(r.a.envs, 64)), 64, r);
  return launch(call, scan_parts<R>, static_cast<unsigned>(blocks_for(r.a.envs, kWarp)), kParts * kWarp, r);
}

}  // namespace

int embedding_forward(Call call, std::size_t batch, std::size_t time, std::size_t channels, const std::int32_t* tokens,
                      const float* wte, const float* wpe, float* y) {
  const std::size_t count = batch * time * channels;
  if (call.version != 1 && channels % 4 == 0 && aligned16(wte) && aligned16(wpe) && aligned16(y))
    return launch(call, embedding_elements<float4>, grid_for(count / 4), kThreads, count / 4, time, channels / 4,
                  tokens, reinterpret_cast<const float4*>(wte), reinterpret_cast<const float4*>(wpe),
                  reinterpret_cast<float4*>(y));
  return launch(call, embedding_elements<float>, grid_for(count), kThreads, count, time, channels, tokens, wte, wpe, y);
}

int embedding_backward(Call call, std::size_t batch, std::size_t time, std::size_t channels, const std::int32_t* tokens,
                       const float* dy, float* dwte, float* dwpe) {
  if (call.version == 1)
    return launch(call, embedding_gradient_plain, static_cast<unsigned>(blocks_for(channels, kWarp)), kWarp,
                  batch * time, time, channels, tokens, dy, dwte, dwpe);
  const std::size_t count = batch * time * channels;
  return in_order(
      [&] { return launch(call, token_gradient, grid_for(count), kThreads, count, channels, tokens, dy, dwte); },
      [&] {
        return launch(call, position_gradient, grid_for(time * channels), kThreads, batch, time * channels, dy, dwpe);
      });
}

int adamw(Call call, const AdamwArguments* a) {
  if (a->step < 1) return kInvalidValue;
  const double correction1 = 1.0 - std::pow(a->beta1, static_cast<double>(a->step));
  const double correction2 = 1.0 - std::pow(a->beta2, static_cast<double>(a->step));
  const AdamwConstants constants{.beta1 = static_cast<float>(a->beta1),
                                 .one_minus_beta1 = static_cast<float>(1.0 - a->beta1),
                                 .beta2 = static_cast<float>(a->beta2),
                                 .one_minus_beta2 = static_cast<float>(1.0 - a->beta2),
                                 .step_size = static_cast<float>(a->learning_rate / correction1),
                                 .inverse_sqrt_correction2 = static_cast<float>(1.0 / std::sqrt(correction2)),
                                 .epsilon = static_cast<float>(a->epsilon),
                                 .keep_decayed = static_cast<float>(1.0 - a->learning_rate * a->weight_decay),
                                 .grad_scale = a->grad_scale,
                                 .device_scale = a->device_scale};
  const std::size_t together = call.version == 1 ? 1 : kTensorsMax;
  for (std::size_t first = 0; first < a->tensor_count;) {
    TensorList list{};
    for (; first < a->tensor_count && list.count < together; ++first) {
      const AdamwTensor& tensor = a->tensors[first];
      if (tensor.count == 0) continue;
      list.tensors[list.count] = tensor;
      list.first_block[list.count + 1] =
          list.first_block[list.count] + static_cast<std::uint32_t>(blocks_for(tensor.count, kChunk));
      ++list.count;
    }
    const int status = launch(call, adamw_chunks, list.first_block[list.count], kThreads, list, constants);
    if (status != 0) return status;
  }
  return 0;
}

int global_norm(Call call, const float* values, std::size_t count, double max_norm, double* block_sums,
                double* result) {
  const std::size_t blocks = blocks_for(count, kNormBlock);
  return in_order(
      [&] {
        if (call.version == 1)
          return launch(call, square_sums_plain, static_cast<unsigned>(blocks_for(blocks * 4, kThreads)), kThreads,
                        count, blocks, values, block_sums);
        return launch(call, square_sums_staged, static_cast<unsigned>(blocks_for(blocks, kNormRows)), kNormThreads,
                      count, blocks, values, block_sums);
      },
      [&] { return launch(call, norm_of_sums, 1, kThreads, blocks, block_sums, max_norm, result); });
}

int gae(Call call, const GaeArguments* a) { return scan(call, Gae{*a}); }
int vtrace(Call call, const VtraceArguments* a) { return scan(call, Vtrace{*a}); }

}  // namespace troupe::kernels::cuda
