// Matrix products, patches and attention, in float and bfloat16. bfloat16 problems are rounded first: the answer is
// that of the rounded numbers in double.
#include <algorithm>

#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/linear/attention.h"
#include "kernels/cpu/linear/matmul.h"

#include "tests/gpu/operations.h"

namespace gpu_test {
namespace {

using namespace troupe::kernels;
constexpr Isa kPlain = Isa::kReference;

void round_to_bfloat(std::vector<double>& values) {
  for (double& x : values) x = static_cast<float>(troupe::bfloat16(static_cast<float>(x)));
}
std::vector<std::uint16_t> halves(const std::vector<double>& values) {
  std::vector<std::uint16_t> out;
  for (const double x : values) out.push_back(troupe::bfloat16(static_cast<float>(x)).bits());
  return out;
}
std::vector<double> widen(const std::vector<std::uint16_t>& values) {
  std::vector<double> out;
  for (const std::uint16_t x : values) out.push_back(static_cast<float>(troupe::bfloat16::from_bits(x)));
  return out;
}
using gpu_test::widen;

// Arrays of the problem's type on the device.
struct Typed {
  Typed(const Gpu& gpu, const std::vector<double>& values, bool half)
      : floats(gpu, half ? std::vector<float>{} : std::vector<float>(values.begin(), values.end())),
        halfs(gpu, half ? halves(values) : std::vector<std::uint16_t>{}), half(half) {}
  Typed(const Gpu& gpu, std::size_t count, bool half)
      : floats(gpu, half ? 0 : count), halfs(gpu, half ? count : 0), half(half) {}
  [[nodiscard]] void* data() const {
    return half ? static_cast<void*>(halfs.data()) : static_cast<void*>(floats.data());
  }
  [[nodiscard]] std::vector<double> values() const { return half ? widen(halfs.values()) : widen(floats.values()); }
  Buffer<float> floats;
  Buffer<std::uint16_t> halfs;
  bool half;
};

// --- y = x w^T + b, dx = dy w, dw = dy^T x: a product of each kind of transposition.
std::vector<Problem> linears(bool small, bool half) {
  std::vector<Problem> out;
  for (const auto& [m, k, n] : {std::tuple{1, 1, 1},
                                {15, 17, 33},
                                {33, 15, 17},
                                {64, 48, 80},
                                {small ? 70 : 1024, small ? 65 : 768, small ? 130 : 3072}}) {
    Problem p{"linear " + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n),
              {{"m", m}, {"k", k}, {"n", n}, {"half", half}},
              {}};
    p.arrays = {{"x", random_values(std::size_t(m) * k, 1)},
                {"w", random_values(std::size_t(n) * k, 2)},
                {"b", random_values(n, 3)},
                {"dy", random_values(std::size_t(m) * n, 4)}};
    if (half)
      for (auto& [name, values] : p.arrays) round_to_bfloat(values);
    out.push_back(p);
  }
  return out;
}
bool is_half(const Problem& p) { return p.sizes.contains("half") && p.sizes.at("half") != 0; }

Arrays solve_linear(const Gpu& gpu, int version, const Problem& p) {
  const std::size_t m = p.size("m"), k = p.size("k"), n = p.size("n");
  const bool half = is_half(p);
  const DType type = half ? DType::kBF16 : DType::kF32;
  const Typed x(gpu, p.arrays.at("x"), half), w(gpu, p.arrays.at("w"), half), b(gpu, p.arrays.at("b"), half),
      dy(gpu, p.arrays.at("dy"), half);
  const Typed y(gpu, m * n, half), dx(gpu, m * k, half), dw(gpu, std::vector<double>(n * k, 0.0), half);
  const auto run = [&](const cuda::MatmulArguments& a) { gpu.check(gpu->matmul({.version = version}, &a), "matmul"); };
  run({m, n, k, x.data(), w.data(), k, k, false, true, y.data(), n, false, b.data(), type});
  run({m, k, n, dy.data(), w.data(), n, k, false, false, dx.data(), k, false, nullptr, type});
  run({n, k, m, dy.data(), x.data(), n, k, true, false, dw.data(), k, true, nullptr, type});
  return {{"y", y.values()}, {"dx", dx.values()}, {"dw", dw.values()}};
}
Arrays right_linear(const Problem& p) {
  const LinearShape s{p.size("m"), p.size("k"), p.size("n")};
  const auto &x = p.arrays.at("x"), &w = p.arrays.at("w"), &b = p.arrays.at("b"), &dy = p.arrays.at("dy");
  std::vector<double> y(dy.size()), dx(x.size()), dw(w.size());
  linear_forward<double>(kPlain, s, x.data(), w.data(), b.data(), y.data());
  linear_backward<double>(kPlain, s, x.data(), w.data(), dy.data(), {dx.data(), dw.data(), nullptr});
  return {{"y", y}, {"dx", dx}, {"dw", dw}};
}

// --- attention
std::vector<Problem> attentions(bool small, bool half) {
  std::vector<Problem> out;
  for (const auto& [batch, time, heads, width] : {std::tuple{1, 1, 1, 1},
                                                  {2, 15, 2, 17},
                                                  {1, 33, 3, 64},
                                                  {2, 65, 1, 33},
                                                  {1, 130, 2, 40},
                                                  {1, small ? 70 : 1000, small ? 1 : 12, 64}}) {
    Problem p{"attention b" + std::to_string(batch) + " t" + std::to_string(time) + " h" + std::to_string(heads) +
                  " d" + std::to_string(width),
              {},
              {}};
    p.sizes = {{"batch", batch}, {"time", time}, {"heads", heads}, {"head_dim", width}, {"half", half}};
    const std::size_t count = std::size_t(batch) * time * heads * width;
    p.arrays = {{"qkv", random_values(3 * count, 1, 2.0)}, {"dout", random_values(count, 2)}};
    if (half)
      for (auto& [name, values] : p.arrays) round_to_bfloat(values);
    out.push_back(p);
  }
  return out;
}
Arrays solve_attention(const Gpu& gpu, int version, const Problem& p) {
  const bool half = is_half(p);
  const std::size_t rows = p.size("batch") * p.size("heads") * p.size("time");
  const Typed qkv(gpu, p.arrays.at("qkv"), half), dout(gpu, p.arrays.at("dout"), half);
  const Typed out(gpu, p.arrays.at("dout").size(), half), dqkv(gpu, p.arrays.at("qkv").size(), half);
  const Buffer<float> lse(gpu, rows), delta(gpu, rows);
  const cuda::AttentionArguments a{
      p.size("batch"), p.size("time"), p.size("heads"), p.size("heads") * p.size("head_dim"),
      qkv.data(),      out.data(),     lse.data(),      dout.data(),
      dqkv.data(),     delta.data()};
  const Call call{.version = version};
  gpu.check(half ? gpu->attention_bf16_forward(call, &a) : gpu->attention_forward(call, &a), "attention_forward");
  gpu.check(half ? gpu->attention_bf16_backward(call, &a) : gpu->attention_backward(call, &a), "attention_backward");
  return {{"out", out.values()}, {"lse", widen(lse.values())}, {"dqkv", dqkv.values()}};
}
Arrays right_attention(const Problem& p) {
  const AttentionShape s{p.size("batch"), p.size("time"), p.size("heads"), p.size("heads") * p.size("head_dim")};
  const auto &qkv = p.arrays.at("qkv"), &dout = p.arrays.at("dout");
  std::vector<double> out(dout.size()), lse(s.batch * s.heads * s.time), dqkv(qkv.size());
  AttentionWorkspace<double> workspace;
  const AttentionState<double> state{.lse = lse.data(), .probs = nullptr};
  attention_forward<double>(kPlain, s, qkv.data(), out.data(), state, workspace);
  attention_backward<double>(kPlain, s, qkv.data(), state, dout.data(), dqkv.data(), workspace);
  return {{"out", out}, {"lse", lse}, {"dqkv", dqkv}};
}

// --- The patches of a convolution, and the images' slopes from theirs.
std::vector<Problem> images(bool small) {
  std::vector<Problem> out;
  for (const auto& [batch, height, width, channels, kernel, stride] :
       {std::tuple{1, 1, 1, 1, 1, 1}, {2, 6, 5, 2, 3, 1}, {3, 11, 9, 3, 3, 4}, {2, 9, 9, 1, 4, 2},
        {small ? 2 : 64, small ? 20 : 84, small ? 20 : 84, 4, 8, 4}}) {
    const std::size_t b = std::size_t(batch), k = std::size_t(kernel), c = std::size_t(channels);
    const std::size_t rows = std::size_t((height - kernel) / stride + 1);
    const std::size_t columns = std::size_t((width - kernel) / stride + 1);
    out.push_back({"patches " + std::to_string(height) + "x" + std::to_string(width) + " by " + std::to_string(kernel) +
                       "/" + std::to_string(stride),
                   {{"batch", batch}, {"height", height}, {"width", width}, {"channels", channels},
                    {"kernel", kernel}, {"stride", stride}},
                   {{"x", random_values(b * std::size_t(height) * std::size_t(width) * c, 1)},
                    {"dpatches", random_values(b * rows * columns * k * k * c, 2)}}});
  }
  return out;
}
Arrays solve_patches(const Gpu& gpu, int version, const Problem& p) {
  Buffer<float> x(gpu, p.floats("x")), dpatches(gpu, p.floats("dpatches"));
  Buffer<float> patches(gpu, p.arrays.at("dpatches").size()), dx(gpu, p.arrays.at("x").size());
  cuda::PatchArguments a{p.size("batch"), p.size("height"), p.size("width"), p.size("channels"),
                         p.size("kernel"), p.size("stride"), x, patches};
  gpu.check(gpu->patches_forward({.version = version}, &a), "patches_forward");
  a.in = dpatches, a.out = dx;
  gpu.check(gpu->patches_backward({.version = version}, &a), "patches_backward");
  return {{"patches", widen(patches.values())}, {"dx", widen(dx.values())}};
}
/// One filter for each number of a patch, which gives just that number: the slopes of the outputs are the patches'.
Arrays right_patches(const Problem& p) {
  ConvShape s{.batch = p.size("batch"), .height = p.size("height"), .width = p.size("width"),
              .channels = p.size("channels"), .filters = 0, .kernel = p.size("kernel"), .stride = p.size("stride")};
  const std::size_t size = s.filters = s.patch_size();
  std::vector<double> w(size * size), dw(w.size()), bias(size), dbias(size);
  for (std::size_t i = 0; i < size; ++i) w[i * size + i] = 1;
  std::vector<double> patches(s.patch_count()), y(patches.size()), scratch(patches.size());
  std::vector<double> dx(p.arrays.at("x").size());
  conv2d_forward<double>(kPlain, s, p.arrays.at("x").data(), w.data(), bias.data(), patches.data(), y.data());
  conv2d_backward<double>(kPlain, s, patches.data(), w.data(), p.arrays.at("dpatches").data(),
                          {.dx = dx.data(), .dw = dw.data(), .dbias = dbias.data(), .dpatches = scratch.data()});
  return {{"patches", y}, {"dx", dx}};
}

}  // namespace

std::vector<Operation> matrix_operations() {
  const auto linear = [](bool half) { return [half](bool small) { return linears(small, half); }; };
  const auto attention = [](bool half) { return [half](bool small) { return attentions(small, half); }; };
  const std::vector<std::string> sizes{"batch", "time", "heads", "head_dim"};
  return {
      {"matmul",
       "matmul_bias",
       {"m", "k", "n"},
       {"x", "w", "b", "dy"},
       {1, 2, 3},
       2e-6,
       linear(false),
       solve_linear,
       right_linear},
      {"matmul_bf16", "", {}, {}, {1, 2, 3}, 4e-3, linear(true), solve_linear, right_linear},
      {"patches", "", {}, {}, {1}, 1e-6, images, solve_patches, right_patches},
      {"attention", "attention", sizes, {"qkv", "dout"}, {1}, 5e-6, attention(false), solve_attention, right_attention},
      {"attention_bf16", "", {}, {}, {1}, 1e-2, attention(true), solve_attention, right_attention},
  };
}

}  // namespace gpu_test
