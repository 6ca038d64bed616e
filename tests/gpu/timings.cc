#include "tests/gpu/timings.h"

#include <algorithm>
#include <functional>

#include "tests/gpu/operations.h"

namespace gpu_test {
namespace {

namespace cuda = troupe::kernels::cuda;
using troupe::kernels::DType;

class Clock {
 public:
  explicit Clock(const Gpu& gpu) : gpu_(gpu) {
    gpu_.check(gpu_->event_create(&start_), "event_create");
    gpu_.check(gpu_->event_create(&end_), "event_create");
  }
  ~Clock() {
    (void)gpu_->event_destroy(start_);
    (void)gpu_->event_destroy(end_);
  }
  Clock(const Clock&) = delete;
  /// The median of several timed runs after two that are not, in microseconds.
  double median(int runs, const std::function<int()>& run) const {
    for (int i = 0; i < 2; ++i) gpu_.check(run(), "warm-up");
    std::vector<float> times;
    for (int i = 0; i < runs; ++i) {
      gpu_.check(gpu_->event_record({}, start_), "event_record");
      gpu_.check(run(), "timed run");
      gpu_.check(gpu_->event_record({}, end_), "event_record");
      float milliseconds = 0;
      gpu_.check(gpu_->event_milliseconds(start_, end_, &milliseconds), "event_milliseconds");
      times.push_back(milliseconds);
    }
    std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
    return std::max(1e-3, 1e3 * static_cast<double>(times[static_cast<std::size_t>(runs / 2)]));
  }

 private:
  const Gpu& gpu_;
  void *start_ = nullptr, *end_ = nullptr;
};

Buffer<float> random_floats(const Gpu& gpu, std::size_t count) {
  std::vector<float> values(count);
  std::uint32_t bits = 12345;
  for (float& x : values) {
    bits = bits * 1664525u + 1013904223u;
    x = static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f;
  }
  return {gpu, values};
}
// The same numbers as bfloat16.
Buffer<std::uint16_t> random_halves(const Gpu& gpu, std::size_t count) {
  Buffer<std::uint16_t> out(gpu, count);
  const auto in = random_floats(gpu, count);
  gpu.check(gpu->cast({}, out, DType::kBF16, in, DType::kF32, count), "cast");
  return out;
}

double product_rate(const Gpu& gpu, const Clock& clock, std::size_t side, DType type, int version) {
  const bool half = type == DType::kBF16;
  const auto fa = random_floats(gpu, half ? 1 : side * side);
  const auto ha = random_halves(gpu, half ? side * side : 1);
  Buffer<float> fc(gpu, half ? 1 : side * side);
  Buffer<std::uint16_t> hc(gpu, half ? side * side : 1);
  const void* a = half ? static_cast<const void*>(ha.data()) : fa.data();
  void* c = half ? static_cast<void*>(hc.data()) : fc.data();
  const cuda::MatmulArguments arguments{side, side, side, a, a, side, side, false, true, c, side, false, nullptr, type};
  const double us = clock.median(9, [&] { return gpu->matmul({.version = version}, &arguments); });
  return 2.0 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side) / us * 1e-3;
}

// One table under construction.
struct Rows {
  const Gpu& gpu;
  const Clock& clock;
  const Ceilings& ceilings;
  std::vector<Timing> out;

  void bytes(const std::string& name, std::initializer_list<int> versions, double moved,
             const std::function<int(Call)>& run) {
    for (const int version : versions) {
      const double us = clock.median(9, [&] { return run({.version = version}); });
      out.push_back({name, version, us, moved / us * 1e-3, "GB/s", moved / us * 1e-3 / ceilings.copy_gb_per_second});
    }
  }
  void flops(const std::string& name, std::initializer_list<int> versions, double work, double ceiling,
             const std::function<int(Call)>& run) {
    for (const int version : versions) {
      const double us = clock.median(5, [&] { return run({.version = version}); });
      out.push_back({name, version, us, work / us * 1e-3, "GFLOP/s", work / us * 1e-3 / ceiling});
    }
  }
};

void time_rows(Rows& rows, std::size_t count, std::size_t columns) {
  const Gpu& gpu = rows.gpu;
  const std::size_t lines = count / columns;
  const double bytes = 4.0 * static_cast<double>(count);
  const auto x = random_floats(gpu, count), dy = random_floats(gpu, count), w = random_floats(gpu, columns);
  Buffer<float> y(gpu, count), mean(gpu, lines), rstd(gpu, lines), dw(gpu, columns), db(gpu, columns);
  dw.zero();
  db.zero();
  rows.bytes("layernorm_forward", {1, 2}, 2 * bytes,
             [&](Call c) { return gpu->layernorm_forward(c, lines, columns, x, w, w, y, mean, rstd, 1e-5f); });
  rows.bytes("layernorm_backward", {1, 2}, 3 * bytes,
             [&](Call c) { return gpu->layernorm_backward(c, lines, columns, x, w, mean, rstd, dy, y, dw, db); });
  rows.bytes("rmsnorm_forward", {1, 2}, 2 * bytes,
             [&](Call c) { return gpu->rmsnorm_forward(c, lines, columns, x, w, y, rstd, 1e-5f); });
  rows.bytes("rmsnorm_backward", {1, 2}, 3 * bytes,
             [&](Call c) { return gpu->rmsnorm_backward(c, lines, columns, x, w, rstd, dy, y, dw); });
  rows.bytes("softmax_forward", {1, 2}, 2 * bytes,
             [&](Call c) { return gpu->softmax_forward(c, lines, columns, x, nullptr, false, y); });
  rows.bytes("softmax_backward", {1, 2}, 3 * bytes,
             [&](Call c) { return gpu->softmax_backward(c, lines, columns, x, dy, y); });
  rows.bytes("bias_forward", {1, 2}, 2 * bytes, [&](Call c) { return gpu->bias_forward(c, lines, columns, w, y); });
  rows.bytes("bias_backward", {1, 2}, bytes, [&](Call c) { return gpu->bias_backward(c, lines, columns, dy, db); });
  rows.bytes("gelu_forward", {1, 2}, 2 * bytes, [&](Call c) { return gpu->gelu_forward(c, count, x, y); });
  rows.bytes("gelu_backward", {1, 2}, 3 * bytes, [&](Call c) { return gpu->gelu_backward(c, count, x, dy, y); });
  using troupe::kernels::Activation;
  rows.bytes("tanh_forward", {1, 2}, 2 * bytes,
             [&](Call c) { return gpu->activation_forward(c, Activation::kTanh, count, x, y); });
  rows.bytes("relu_backward", {1, 2}, 3 * bytes,
             [&](Call c) { return gpu->activation_backward(c, Activation::kRelu, count, x, dy, y); });
  Buffer<std::int32_t> targets(gpu, std::vector<std::int32_t>(lines, 0));
  Buffer<double> result(gpu, 2);
  const cuda::CrossEntropyArguments e{lines, columns, x, targets, mean, y, 0, result};
  rows.bytes("cross_entropy", {1, 2}, 2 * bytes, [&](Call c) { return gpu->cross_entropy(c, &e); });
  const auto table = random_floats(gpu, 1024 * columns);
  Buffer<float> gradient(gpu, 1024 * columns);
  std::vector<std::int32_t> tokens(lines);
  for (std::size_t i = 0; i < lines; ++i) tokens[i] = static_cast<std::int32_t>(i * 37 % 1024);
  Buffer<std::int32_t> at(gpu, tokens);
  const std::size_t time = std::min<std::size_t>(lines, 1024);
  rows.bytes("embedding_forward", {1, 2}, 2 * bytes,
             [&](Call c) { return gpu->embedding_forward(c, lines / time, time, columns, at, table, table, y); });
  rows.bytes("embedding_backward", {1, 2}, 3 * bytes, [&](Call c) {
    return gpu->embedding_backward(c, lines / time, time, columns, at, dy, gradient, gradient);
  });
}

void time_elements(Rows& rows, std::size_t count) {
  const Gpu& gpu = rows.gpu;
  const double bytes = 4.0 * static_cast<double>(count);
  const auto x = random_floats(gpu, count), g = random_floats(gpu, count);
  Buffer<float> y(gpu, count), m(gpu, count), v(gpu, count);
  Buffer<std::uint16_t> half(gpu, count);
  Buffer<double> sums(gpu, count / 4096 + 1), result(gpu, 2);
  rows.bytes("copy", {1, 2}, 2 * bytes, [&](Call c) { return gpu->copy_kernel(c, y, x, 4 * count); });
  rows.bytes("cast float to bfloat16", {1, 2}, 1.5 * bytes,
             [&](Call c) { return gpu->cast(c, half, DType::kBF16, x, DType::kF32, count); });
  cuda::ReduceArguments r{};
  r.out = y;
  r.inputs[0] = x;
  r.inputs[1] = g;
  r.input_count = 2;
  r.count = count;
  r.type = DType::kF32;
  r.ranks = 2;
  rows.bytes("reduce sum float, two inputs", {1, 2}, 3 * bytes, [&](Call c) { return gpu->reduce(c, &r); });
  m.zero();
  v.zero();
  const cuda::AdamwTensor tensor{y, g, m, v, half, count, 1};
  const cuda::AdamwArguments a{&tensor, 1, 1, 1e-3, 0.9, 0.95, 1e-8, 0.1, 1.0, nullptr};
  rows.bytes("adamw", {1, 2}, 7.5 * bytes, [&](Call c) { return gpu->adamw(c, &a); });
  rows.bytes("global_norm", {1, 2}, bytes, [&](Call c) { return gpu->global_norm(c, x, count, 1.0, sums, result); });
  const std::size_t steps = 128, envs = count / steps;
  Buffer<std::uint8_t> flags(gpu, count);
  flags.zero();
  const cuda::GaeArguments gae{steps, envs, x, g, g, flags, flags, x, y, m, 0.99, 0.95};
  rows.bytes("gae", {1, 2}, 4.5 * bytes, [&](Call c) { return gpu->gae(c, &gae); });
  const cuda::VtraceArguments vtrace{steps, envs, x, g, g, x, g, x, y, m, 1, 1, 1, 1};
  rows.bytes("vtrace", {1, 2}, 6 * bytes, [&](Call c) { return gpu->vtrace(c, &vtrace); });
}

void time_attention(Rows& rows, std::size_t batch, std::size_t time, std::size_t heads) {
  const Gpu& gpu = rows.gpu;
  const std::size_t channels = heads * 64, count = batch * time * channels;
  // Half of the scores: two products forward, and seven backward, of which two are recalculated scores.
  const double product =
      static_cast<double>(batch * heads) * static_cast<double>(time) * static_cast<double>(time) * 64;
  Buffer<float> lse(gpu, batch * heads * time), delta(gpu, batch * heads * time);
  const auto run = [&](const std::string& name, void* qkv, void* dout, void* out, void* dqkv, double ceiling,
                       auto forward, auto backward) {
    const cuda::AttentionArguments a{batch, time, heads, channels, qkv, out, lse, dout, dqkv, delta};
    rows.flops(name + "_forward", {1}, 2 * product, ceiling, [&](Call c) { return forward(c, &a); });
    rows.flops(name + "_backward", {1}, 5 * product, ceiling, [&](Call c) { return backward(c, &a); });
  };
  {
    const auto qkv = random_floats(gpu, 3 * count), dout = random_floats(gpu, count);
    Buffer<float> out(gpu, count), dqkv(gpu, 3 * count);
    run("attention", qkv.data(), dout.data(), out.data(), dqkv.data(), rows.ceilings.float_gflop_per_second,
        gpu->attention_forward, gpu->attention_backward);
  }
  const auto qkv = random_halves(gpu, 3 * count), dout = random_halves(gpu, count);
  Buffer<std::uint16_t> out(gpu, count), dqkv(gpu, 3 * count);
  run("attention_bf16", qkv.data(), dout.data(), out.data(), dqkv.data(), rows.ceilings.bf16_gflop_per_second,
      gpu->attention_bf16_forward, gpu->attention_bf16_backward);
}

}  // namespace

Ceilings measure_ceilings(const Gpu& gpu, bool large) {
  const Clock clock(gpu);
  const std::size_t bytes = large ? std::size_t{1} << 30 : std::size_t{1} << 20;
  Buffer<std::uint8_t> from(gpu, bytes), to(gpu, bytes);
  const double us = clock.median(9, [&] { return gpu->copy({}, to, from, bytes); });
  return {.copy_gb_per_second = 2.0 * static_cast<double>(bytes) / us * 1e-3,
          .bf16_gflop_per_second = product_rate(gpu, clock, large ? 8192 : 64, DType::kBF16, 0),
          .float_gflop_per_second = product_rate(gpu, clock, large ? 4096 : 64, DType::kF32, 0)};
}

std::vector<Timing> time_kernels(const Gpu& gpu, const Ceilings& ceilings, bool large) {
  const Clock clock(gpu);
  Rows rows{gpu, clock, ceilings, {}};
  time_elements(rows, large ? std::size_t{1} << 26 : std::size_t{1} << 12);
  time_rows(rows, large ? std::size_t{768} << 16 : std::size_t{768} * 4, 768);
  time_attention(rows, large ? 8 : 1, large ? 1024 : 32, large ? 12 : 1);
  for (const int version : {1, 2, 3}) {
    for (const DType type : {DType::kF32, DType::kBF16}) {
      const std::size_t side = large ? 2048 : 64;
      const double rate = product_rate(gpu, clock, side, type, version);
      const double cube = 2.0 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side);
      rows.out.push_back(
          {type == DType::kF32 ? "matmul float" : "matmul bfloat16", version, cube / rate * 1e-3, rate, "GFLOP/s",
           rate / (type == DType::kF32 ? ceilings.float_gflop_per_second : ceilings.bf16_gflop_per_second)});
    }
  }
  return rows.out;
}

}  // namespace gpu_test
