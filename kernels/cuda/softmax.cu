// Softmax, and cross-entropy fused with it.
//
// v1  One thread a row.
// v2  One block a row: rows are long (a vocabulary), so a block reads each in whole lines, and few rows still fill the
//     chip.
//     Cross-entropy keeps a running largest value beside a running sum that is rescaled when it grows: one reading for
//     both instead of two, and the gradient needs only one more.
#include "kernels/cuda/common.cuh"

namespace troupe::kernels::cuda {
namespace {

struct OneThread {
  static constexpr bool kBlock = false;
  __device__ static float sum(float value) { return value; }
  __device__ static float max(float value) { return value; }
};
struct OneBlock {
  static constexpr bool kBlock = true;
  __device__ static float sum(float value) { return block_sum(value); }
  __device__ static float max(float value) { return block_max(value); }
};

template <class Team>
__device__ std::size_t row_of() {
  return Team::kBlock ? std::size_t{blockIdx.x} : global_thread();
}
template <class Team>
__device__ std::size_t first_of() {
  return Team::kBlock ? threadIdx.x : 0u;
}
template <class Team>
__device__ std::size_t step_of() {
  return Team::kBlock ? blockDim.x : 1u;
}

template <class Team>
__global__ void softmax_rows(std::size_t rows, std::size_t columns, const float* x, const std::uint8_t* mask,
                             bool causal, float* y) {
  const std::size_t row = row_of<Team>(), first = first_of<Team>(), step = step_of<Team>();
  if (row >= rows) return;
  const std::size_t end = causal ? row % columns + 1 : columns;
  x += row * columns;
  y += row * columns;
  if (mask != nullptr) mask += row * columns;
  const auto counts = [&](std::size_t c) { return c < end && (mask == nullptr || mask[c] != 0); };
  float largest = -INFINITY, sum = 0;
  for (std::size_t c = first; c < end; c += step)
    if (counts(c)) largest = fmaxf(largest, x[c]);
  largest = Team::max(largest);
  for (std::size_t c = first; c < end; c += step)
    if (counts(c)) sum += expf(x[c] - largest);
  sum = Team::sum(sum);
  // Every thread writes only what it alone reads: y may be x.
  for (std::size_t c = first; c < columns; c += step) y[c] = counts(c) ? expf(x[c] - largest) / sum : 0.0f;
}

template <class Team>
__global__ void softmax_dx(std::size_t rows, std::size_t columns, const float* y, const float* dy, float* dx) {
  const std::size_t row = row_of<Team>(), first = first_of<Team>(), step = step_of<Team>();
  if (row >= rows) return;
  y += row * columns;
  dy += row * columns;
  dx += row * columns;
  float dot = 0;
  for (std::size_t c = first; c < columns; c += step) dot += y[c] * dy[c];
  dot = Team::sum(dot);
  for (std::size_t c = first; c < columns; c += step) dx[c] = y[c] * (dy[c] - dot);
}

// One block; result[1] = rows whose target counts.
__global__ void count_targets(std::size_t rows, const std::int32_t* targets, double* result) {
  double count = 0;
  for (std::size_t row = threadIdx.x; row < rows; row += blockDim.x) count += targets[row] >= 0 ? 1 : 0;
  count = block_sum(count);
  if (threadIdx.x == 0) result[1] = count;
}

// One block; result[0] = the sum of the losses.
__global__ void sum_losses(std::size_t rows, const float* row_loss, double* result) {
  double sum = 0;
  for (std::size_t row = threadIdx.x; row < rows; row += blockDim.x) sum += static_cast<double>(row_loss[row]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) result[0] = sum;
}

template <class Team>
__global__ void entropy_rows(CrossEntropyArguments a) {
  const std::size_t row = row_of<Team>(), first = first_of<Team>(), step = step_of<Team>();
  if (row >= a.rows) return;
  const float* x = a.logits + row * a.columns;
  const std::int32_t target = a.targets[row];
  float largest = -INFINITY, sum = 0;
  for (std::size_t c = first; c < a.columns; c += step) {
    const float value = x[c];
    if (value > largest) {
      sum *= expf(largest - value);
      largest = value;
    }
    if (value != -INFINITY) sum += expf(value - largest);  // a column that is ruled out
  }
  const float common = Team::max(largest);
  // A thread without a column has -infinity and nothing to add.
  sum = Team::sum(sum == 0.0f ? 0.0f : sum * expf(largest - common));
  const bool counts = target >= 0;
  // The target's logit is read before anything is written over it: every thread passes the barriers of the sum first.
  if (first == 0) a.row_loss[row] = counts ? common + logf(sum) - x[target] : 0.0f;
  if (a.dlogits == nullptr) return;
  if (Team::kBlock) __syncthreads();
  const double divisor = a.divisor != 0 ? a.divisor : a.result[1];
  const float scale = counts && divisor != 0 ? static_cast<float>(1.0 / divisor) : 0.0f;
  float* dx = a.dlogits + row * a.columns;
  for (std::size_t c = first; c < a.columns; c += step) {
    const float one = counts && c == static_cast<std::size_t>(target) ? 1.0f : 0.0f;
    dx[c] = counts ? (expf(x[c] - common) / sum - one) * scale : 0.0f;
  }
}

template <class... P, class... A>
int launch_rows(Call call, void (*by_thread)(P...), void (*by_block)(P...), std::size_t rows, A... arguments) {
  if (call.version == 1)
    return launch(call, by_thread, static_cast<unsigned>(blocks_for(rows, kThreads)), kThreads, arguments...);
  return launch(call, by_block, static_cast<unsigned>(rows), kThreads, arguments...);
}

}  // namespace

int softmax_forward(Call call, std::size_t rows, std::size_t columns, const float* x, const std::uint8_t* mask,
                    bool causal, float* y) {
  if (causal && (mask != nullptr || (columns != 0 && rows % columns != 0))) return kInvalidValue;
  return launch_rows(call, softmax_rows<OneThread>, softmax_rows<OneBlock>, rows, rows, columns, x, mask, causal, y);
}

int softmax_backward(Call call, std::size_t rows, std::size_t columns, const float* y, const float* dy, float* dx) {
  return launch_rows(call, softmax_dx<OneThread>, softmax_dx<OneBlock>, rows, rows, columns, y, dy, dx);
}

int cross_entropy(Call call, const CrossEntropyArguments* a) {
  if (a->row_loss == nullptr || a->result == nullptr || a->columns == 0) return kInvalidValue;
  return in_order([&] { return launch(call, count_targets, 1, kThreads, a->rows, a->targets, a->result); },
                  [&] { return launch_rows(call, entropy_rows<OneThread>, entropy_rows<OneBlock>, a->rows, *a); },
                  [&] { return launch(call, sum_losses, 1, kThreads, a->rows, a->row_loss, a->result); });
}

}  // namespace troupe::kernels::cuda
