// LayerNorm, RMSNorm and bias.
//
// v1  One thread a row (parameters' gradients: one thread a column): the formulas as they stand.
// v2  One warp a row: neighbouring lanes read neighbouring columns, so memory moves in whole lines, and sums need
//     shuffles only, no barrier. Parameters' gradients: a block has 8 columns (a sector of memory, so that 768 columns
//     make 96 blocks for the 132 processors of an H100), its 64 teams share the rows, and their partial sums meet in
//     shared memory once: whole sectors again, and a fixed order (CK-4).
#include "kernels/cuda/common.cuh"

namespace troupe::kernels::cuda {
namespace {

// How many threads share a row, and what a sum over them is. Everything below is written once for both versions.
struct OneThread {
  static constexpr unsigned kLanes = 1;
  __device__ static float sum(float value) { return value; }
};
struct OneWarp {
  static constexpr unsigned kLanes = kWarp;
  __device__ static float sum(float value) { return warp_sum(value); }
};

template <class Team>
__global__ void layernorm_rows(std::size_t rows, std::size_t columns, const float* x, const float* w, const float* b,
                               float* y, float* mean, float* rstd, float epsilon) {
  const std::size_t row = global_thread() / Team::kLanes, lane = threadIdx.x % Team::kLanes;
  if (row >= rows) return;
  x += row * columns;
  y += row * columns;
  const float n = static_cast<float>(columns);
  float sum = 0, squares = 0;
  for (std::size_t c = lane; c < columns; c += Team::kLanes) sum += x[c];
  const float m = Team::sum(sum) / n;
  for (std::size_t c = lane; c < columns; c += Team::kLanes) squares += (x[c] - m) * (x[c] - m);
  const float r = 1.0f / sqrtf(Team::sum(squares) / n + epsilon);
  for (std::size_t c = lane; c < columns; c += Team::kLanes) y[c] = (x[c] - m) * r * w[c] + b[c];
  if (lane == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
}

template <class Team>
__global__ void layernorm_dx(std::size_t rows, std::size_t columns, const float* x, const float* w, const float* mean,
                             const float* rstd, const float* dy, float* dx) {
  const std::size_t row = global_thread() / Team::kLanes, lane = threadIdx.x % Team::kLanes;
  if (row >= rows) return;
  x += row * columns;
  dy += row * columns;
  dx += row * columns;
  const float m = mean[row], r = rstd[row], n = static_cast<float>(columns);
  float sum = 0, dot = 0;
  for (std::size_t c = lane; c < columns; c += Team::kLanes) {
    const float g = dy[c] * w[c];
    sum += g;
    dot += g * (x[c] - m) * r;
  }
  sum = Team::sum(sum) / n;
  dot = Team::sum(dot) / n;
  for (std::size_t c = lane; c < columns; c += Team::kLanes) dx[c] = r * (dy[c] * w[c] - sum - (x[c] - m) * r * dot);
}

template <class Team>
__global__ void rmsnorm_rows(std::size_t rows, std::size_t columns, const float* x, const float* w, float* y,
                             float* rstd, float epsilon) {
  const std::size_t row = global_thread() / Team::kLanes, lane = threadIdx.x % Team::kLanes;
  if (row >= rows) return;
  x += row * columns;
  y += row * columns;
  float squares = 0;
  for (std::size_t c = lane; c < columns; c += Team::kLanes) squares += x[c] * x[c];
  const float r = 1.0f / sqrtf(Team::sum(squares) / static_cast<float>(columns) + epsilon);
  for (std::size_t c = lane; c < columns; c += Team::kLanes) y[c] = x[c] * r * w[c];
  if (lane == 0) rstd[row] = r;
}

template <class Team>
__global__ void rmsnorm_dx(std::size_t rows, std::size_t columns, const float* x, const float* w, const float* rstd,
                           const float* dy, float* dx) {
  const std::size_t row = global_thread() / Team::kLanes, lane = threadIdx.x % Team::kLanes;
  if (row >= rows) return;
  x += row * columns;
  dy += row * columns;
  dx += row * columns;
  const float r = rstd[row];
  float dot = 0;
  for (std::size_t c = lane; c < columns; c += Team::kLanes) dot += dy[c] * w[c] * x[c] * r;
  dot = Team::sum(dot) / static_cast<float>(columns);
  for (std::size_t c = lane; c < columns; c += Team::kLanes) dx[c] = r * (dy[c] * w[c] - x[c] * r * dot);
}

// What a column's gradients are made of. dw: dy times the normalized x (null: not wanted); db: dy. mean null: RMSNorm.
struct ColumnInputs {
  const float *x, *mean, *rstd, *dy;
  float *dw, *db;
};

__device__ inline float normalized(const ColumnInputs& in, std::size_t row, std::size_t at) {
  return (in.x[at] - (in.mean != nullptr ? in.mean[row] : 0.0f)) * in.rstd[row];
}

__global__ void columns_plain(std::size_t rows, std::size_t columns, ColumnInputs in) {
  const std::size_t c = global_thread();
  if (c >= columns) return;
  float dw = 0, db = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t at = row * columns + c;
    if (in.dw != nullptr) dw += in.dy[at] * normalized(in, row, at);
    db += in.dy[at];
  }
  if (in.dw != nullptr) in.dw[c] += dw;
  if (in.db != nullptr) in.db[c] += db;
}

constexpr unsigned kColumns = 8, kTeams = 64;  // of a block

__global__ void columns_shared(std::size_t rows, std::size_t columns, ColumnInputs in) {
  __shared__ float parts[2][kTeams][kColumns];
  const unsigned lane = threadIdx.x % kColumns, team = threadIdx.x / kColumns;
  const std::size_t c = std::size_t{blockIdx.x} * kColumns + lane;
  float dw = 0, db = 0;
  if (c < columns) {
    for (std::size_t row = team; row < rows; row += kTeams) {
      const std::size_t at = row * columns + c;
      if (in.dw != nullptr) dw += in.dy[at] * normalized(in, row, at);
      db += in.dy[at];
    }
  }
  parts[0][team][lane] = dw;
  parts[1][team][lane] = db;
  __syncthreads();
  if (team != 0 || c >= columns) return;
  dw = db = 0;
  for (unsigned i = 0; i < kTeams; ++i) {
    dw += parts[0][i][lane];
    db += parts[1][i][lane];
  }
  if (in.dw != nullptr) in.dw[c] += dw;
  if (in.db != nullptr) in.db[c] += db;
}

int sum_columns(Call call, std::size_t rows, std::size_t columns, const ColumnInputs& in) {
  if (call.version == 1)
    return launch(call, columns_plain, static_cast<unsigned>(blocks_for(columns, kThreads)), kThreads, rows, columns,
                  in);
  return launch(call, columns_shared, static_cast<unsigned>(blocks_for(columns, kColumns)), kColumns * kTeams, rows,
                columns, in);
}

__global__ void add_bias(std::size_t count, std::size_t columns, const float* b, float* y) {
  for (std::size_t i = global_thread(); i < count; i += global_stride()) y[i] += b[i % columns];
}

// Four columns at a time: a quarter of the memory instructions and of the divisions.
__global__ void add_bias_by_four(std::size_t count, std::size_t columns, const float4* b, float4* y) {
  for (std::size_t i = global_thread(); i < count; i += global_stride()) {
    const float4 add = b[i % columns];
    float4 value = y[i];
    value.x += add.x;
    value.y += add.y;
    value.z += add.z;
    value.w += add.w;
    y[i] = value;
  }
}

template <class... P, class... A>
int launch_rows(Call call, void (*by_thread)(P...), void (*by_warp)(P...), std::size_t rows, A... arguments) {
  if (call.version == 1)
    return launch(call, by_thread, static_cast<unsigned>(blocks_for(rows, kThreads)), kThreads, rows, arguments...);
  return launch(call, by_warp, static_cast<unsigned>(blocks_for(rows * kWarp, kThreads)), kThreads, rows, arguments...);
}

}  // namespace

int layernorm_forward(Call call, std::size_t rows, std::size_t columns, const float* x, const float* w, const float* b,
                      float* y, float* mean, float* rstd, float epsilon) {
  return launch_rows(call, layernorm_rows<OneThread>, layernorm_rows<OneWarp>, rows, columns, x, w, b, y, mean, rstd,
                     epsilon);
}

int layernorm_backward(Call call, std::size_t rows, std::size_t columns, const float* x, const float* w,
                       const float* mean, const float* rstd, const float* dy, float* dx, float* dw, float* db) {
  // Columns first: dx may be dy.
  return in_order([&] { return sum_columns(call, rows, columns, {x, mean, rstd, dy, dw, db}); },
                  [&] {
                    return launch_rows(call, layernorm_dx<OneThread>, layernorm_dx<OneWarp>, rows, columns, x, w, mean,
                                       rstd, dy, dx);
                  });
}

int rmsnorm_forward(Call call, std::size_t rows, std::size_t columns, const float* x, const float* w, float* y,
                    float* rstd, float epsilon) {
  return launch_rows(call, rmsnorm_rows<OneThread>, rmsnorm_rows<OneWarp>, rows, columns, x, w, y, rstd, epsilon);
}

int rmsnorm_backward(Call call, std::size_t rows, std::size_t columns, const float* x, const float* w,
                     const float* rstd, const float* dy, float* dx, float* dw) {
  return in_order(
      [&] { return sum_columns(call, rows, columns, {x, nullptr, rstd, dy, dw, nullptr}); },
      [&] { return launch_rows(call, rmsnorm_dx<OneThread>, rmsnorm_dx<OneWarp>, rows, columns, x, w, rstd, dy, dx); });
}

int bias_forward(Call call, std::size_t rows, std::size_t columns, const float* b, float* y) {
  const std::size_t count = rows * columns;
  if (call.version != 1 && columns % 4 == 0 && aligned16(b) && aligned16(y))
    return launch(call, add_bias_by_four, grid_for(count / 4), kThreads, count / 4, columns / 4,
                  reinterpret_cast<const float4*>(b), reinterpret_cast<float4*>(y));
  return launch(call, add_bias, grid_for(count), kThreads, count, columns, b, y);
}

int bias_backward(Call call, std::size_t rows, std::size_t columns, const float* dy, float* db) {
  return sum_columns(call, rows, columns, {nullptr, nullptr, nullptr, dy, nullptr, db});
}

}  // namespace troupe::kernels::cuda
