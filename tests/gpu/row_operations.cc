// LayerNorm, RMSNorm, softmax, cross-entropy, GELU, tanh, ReLU, bias.
#include <limits>

#include "kernels/cpu/activation/activation.h"
#include "kernels/cpu/rows/rows.h"

#include "tests/gpu/operations.h"

namespace gpu_test {
namespace {

using namespace troupe::kernels;
constexpr Isa kPlain = Isa::kReference;

// Awkward rows and columns, and one matrix of each kind that fills a chip.
std::vector<std::pair<std::size_t, std::size_t>> shapes(bool small) {
  std::vector<std::pair<std::size_t, std::size_t>> out{{1, 1}, {15, 17}, {33, 15}, {17, 33}, {3, 768}, {5, 1000}};
  if (!small) out.insert(out.end(), {{1024, 768}, {1, 1000003}, {100003, 10}, {64, 50257}});
  return out;
}

Problem matrix(const std::string& name, std::size_t rows, std::size_t columns, double spread = 1) {
  Problem p{name + " " + std::to_string(rows) + "x" + std::to_string(columns), {}, {}};
  p.sizes = {{"rows", static_cast<double>(rows)}, {"cols", static_cast<double>(columns)}};
  p.arrays = {{"x", random_values(rows * columns, 1, spread)}, {"dy", random_values(rows * columns, 2)},
              {"w", random_values(columns, 3)}, {"b", random_values(columns, 4)}};
  return p;
}

std::vector<Problem> matrices(const std::string& name, bool small) {
  std::vector<Problem> out;
  for (const auto& [rows, columns] : shapes(small)) out.push_back(matrix(name, rows, columns));
  return out;
}

Arrays solve_layernorm(const Gpu& gpu, int version, const Problem& p) {
  const std::size_t rows = p.size("rows"), columns = p.size("cols"), count = rows * columns;
  Buffer<float> x(gpu, p.floats("x")), w(gpu, p.floats("w")), b(gpu, p.floats("b")), dy(gpu, p.floats("dy"));
  Buffer<float> y(gpu, count), mean(gpu, rows), rstd(gpu, rows), dw(gpu, columns), db(gpu, columns);
  dw.zero();
  db.zero();
  const Call call{.version = version};
  gpu.check(gpu->layernorm_forward(call, rows, columns, x, w, b, y, mean, rstd, 1e-5f), "layernorm_forward");
  gpu.check(gpu->layernorm_backward(call, rows, columns, x, w, mean, rstd, dy, dy, dw, db), "layernorm_backward");
  return {{"y", widen(y.values())}, {"mean", widen(mean.values())}, {"rstd", widen(rstd.values())},
          {"dx", widen(dy.values())}, {"dw", widen(dw.values())}, {"db", widen(db.values())}};
}
Arrays right_layernorm(const Problem& p) {
  const RowsShape s{p.size("rows"), p.size("cols")};
  const auto &x = p.arrays.at("x"), &w = p.arrays.at("w"), &b = p.arrays.at("b"), &dy = p.arrays.at("dy");
  std::vector<double> y(x.size()), mean(s.rows), rstd(s.rows), dx(x.size()), dw(w.size()), db(w.size());
  layernorm_forward<double>(kPlain, s, x.data(), w.data(), b.data(), y.data(), {mean.data(), rstd.data()});
  layernorm_backward<double>(kPlain, s, x.data(), w.data(), {mean.data(), rstd.data()}, dy.data(), dx.data(), dw.data(),
                             db.data());
  return {{"y", y}, {"rstd", rstd}, {"dx", dx}, {"dw", dw}, {"db", db}};
}

Arrays solve_rmsnorm(const Gpu& gpu, int version, const Problem& p) {
  const std::size_t rows = p.size("rows"), columns = p.size("cols"), count = rows * columns;
  Buffer<float> x(gpu, p.floats("x")), w(gpu, p.floats("w")), dy(gpu, p.floats("dy"));
  Buffer<float> y(gpu, count), rstd(gpu, rows), dw(gpu, columns), dx(gpu, count);
  dw.zero();
  const Call call{.version = version};
  gpu.check(gpu->rmsnorm_forward(call, rows, columns, x, w, y, rstd, 1e-5f), "rmsnorm_forward");
  gpu.check(gpu->rmsnorm_backward(call, rows, columns, x, w, rstd, dy, dx, dw), "rmsnorm_backward");
  return {
      {"y", widen(y.values())}, {"rstd", widen(rstd.values())}, {"dx", widen(dx.values())}, {"dw", widen(dw.values())}};
}
Arrays right_rmsnorm(const Problem& p) {
  const RowsShape s{p.size("rows"), p.size("cols")};
  const auto &x = p.arrays.at("x"), &w = p.arrays.at("w"), &dy = p.arrays.at("dy");
  std::vector<double> y(x.size()), rstd(s.rows), dx(x.size()), dw(w.size());
  rmsnorm_forward<double>(kPlain, s, x.data(), w.data(), y.data(), rstd.data());
  rmsnorm_backward<double>(kPlain, s, x.data(), w.data(), rstd.data(), dy.data(), dx.data(), dw.data());
  return {{"y", y}, {"rstd", rstd}, {"dx", dx}, {"dw", dw}};
}

// Softmax of three kinds: plain, masked (an array "mask"), causal (a size "time").
Arrays solve_softmax(const Gpu& gpu, int version, const Problem& p) {
  const bool causal = p.sizes.contains("time");
  const std::size_t count = p.arrays.at("x").size(), columns = p.size(causal ? "time" : "cols"), rows = count / columns;
  Buffer<float> x(gpu, p.floats("x")), dy(gpu, p.floats("dy")), y(gpu, count), dx(gpu, count);
  Buffer<std::uint8_t> mask(gpu, p.arrays.contains("mask") ? p.bytes("mask") : std::vector<std::uint8_t>{});
  const std::uint8_t* masked = p.arrays.contains("mask") ? mask.data() : nullptr;
  const Call call{.version = version};
  gpu.check(gpu->softmax_forward(call, rows, columns, x, masked, causal, y), "softmax_forward");
  gpu.check(gpu->softmax_backward(call, rows, columns, y, dy, dx), "softmax_backward");
  return {{"y", widen(y.values())}, {"dx", widen(dx.values())}};
}
Arrays right_softmax(const Problem& p) {
  const bool causal = p.sizes.contains("time");
  const auto &x = p.arrays.at("x"), &dy = p.arrays.at("dy");
  const std::size_t columns = p.size(causal ? "time" : "cols");
  const RowsShape s{x.size() / columns, columns};
  std::vector<double> y(x.size()), dx(x.size());
  const auto mask = p.arrays.contains("mask") ? p.bytes("mask") : std::vector<std::uint8_t>{};
  if (causal) softmax_causal_forward<double>(kPlain, s.rows / columns, columns, x.data(), y.data());
  else softmax_forward<double>(kPlain, s, x.data(), mask.empty() ? nullptr : mask.data(), y.data());
  softmax_backward<double>(kPlain, s, y.data(), dy.data(), dx.data());
  return {{"y", y}, {"dx", dx}};
}

std::vector<Problem> masked(bool small) {
  auto out = matrices("softmax_masked", small);
  for (Problem& p : out) {
    p.arrays["mask"] = random_integers(p.arrays["x"].size(), 5, 0, 2);
    for (std::size_t row = 0; row < p.size("rows"); ++row) p.arrays["mask"][row * p.size("cols")] = 1;
  }
  return out;
}
std::vector<Problem> causal(bool small) {
  std::vector<Problem> out;
  for (const std::size_t time : {1, 15, 17, 33, small ? 64 : 1024}) {
    out.push_back(matrix("softmax_causal", 3 * time, time));
    out.back().sizes["time"] = static_cast<double>(time);
  }
  return out;
}

Arrays solve_entropy(const Gpu& gpu, int version, const Problem& p) {
  const std::size_t rows = p.size("rows"), columns = p.size("cols");
  Buffer<float> logits(gpu, p.floats("logits")), row_loss(gpu, rows);
  Buffer<std::int32_t> targets(gpu, p.integers("targets"));
  Buffer<double> result(gpu, 2);
  const cuda::CrossEntropyArguments a{.rows = rows, .columns = columns, .logits = logits, .targets = targets,
                                      .row_loss = row_loss, .dlogits = logits, .divisor = 0, .result = result};
  gpu.check(gpu->cross_entropy({.version = version}, &a), "cross_entropy");
  const auto sums = result.values();
  return {{"row_loss", widen(row_loss.values())}, {"dlogits", widen(logits.values())}, {"loss", {sums[0] / sums[1]}}};
}
Arrays right_entropy(const Problem& p) {
  const auto& logits = p.arrays.at("logits");
  const auto targets = p.integers("targets");
  std::vector<double> row_loss(targets.size()), dlogits(logits.size());
  const auto result = cross_entropy<double>(kPlain, {p.size("rows"), p.size("cols")}, logits.data(), targets.data(),
                                            {row_loss.data(), dlogits.data()});
  return {
      {"row_loss", row_loss}, {"dlogits", dlogits}, {"loss", {result.loss_sum / static_cast<double>(result.counted)}}};
}
std::vector<Problem> entropies(bool small) {
  auto out = matrices("cross_entropy", small);
  for (Problem& p : out) {
    p.arrays["logits"] = random_values(p.arrays["x"].size(), 6, 8.0);
    p.arrays["targets"] = random_integers(p.size("rows"), 7, -1, static_cast<int>(p.size("cols")));
    p.arrays["targets"][0] = 0;
  }
  return out;
}

std::vector<Problem> lines(const std::string& name, bool small) {
  std::vector<Problem> out;
  for (const std::size_t n :
       {std::size_t{1}, std::size_t{15}, std::size_t{17}, std::size_t{33}, std::size_t{small ? 4099u : 1000003u}})
    for (const double shift : {0.0, 1.0}) {
      out.push_back({name + " " + std::to_string(n) + (shift != 0 ? " unaligned" : ""),
                     {{"n", static_cast<double>(n)}, {"shift", shift}},
                     {{"x", random_values(n, 8, 3.0)}, {"dy", random_values(n, 9)}}});
    }
  return out;
}
Arrays solve_gelu(const Gpu& gpu, int version, const Problem& p) {
  const std::size_t n = p.arrays.at("x").size(), shift = p.sizes.contains("shift") ? p.size("shift") : 0;
  Buffer<float> x(gpu, p.floats("x"), shift), dy(gpu, p.floats("dy"), shift), y(gpu, n, shift), dx(gpu, n, shift);
  gpu.check(gpu->gelu_forward({.version = version}, n, x, y), "gelu_forward");
  gpu.check(gpu->gelu_backward({.version = version}, n, x, dy, dx), "gelu_backward");
  return {{"y", widen(y.values())}, {"dx", widen(dx.values())}};
}
Arrays right_gelu(const Problem& p) {
  const auto &x = p.arrays.at("x"), &dy = p.arrays.at("dy");
  std::vector<double> y(x.size()), dx(x.size());
  gelu_forward<double>(kPlain, x.size(), x.data(), y.data());
  gelu_backward<double>(kPlain, x.size(), x.data(), dy.data(), dx.data());
  return {{"y", y}, {"dx", dx}};
}

std::vector<Problem> activations(bool small) {
  std::vector<Problem> out = lines("activation", small);
  for (Problem& p : out)
    if (p.size("n") > 3) p.arrays["x"][3] = std::numeric_limits<double>::quiet_NaN();  // ACT-3
  return out;
}
// In place both times (ACT-2).
template <Activation kActivation>
Arrays solve_activation(const Gpu& gpu, int version, const Problem& p) {
  const std::size_t n = p.arrays.at("x").size(), shift = p.sizes.contains("shift") ? p.size("shift") : 0;
  Buffer<float> y(gpu, p.floats("x"), shift), dx(gpu, p.floats("dy"), shift);
  gpu.check(gpu->activation_forward({.version = version}, kActivation, n, y, y), "activation_forward");
  gpu.check(gpu->activation_backward({.version = version}, kActivation, n, y, dx, dx), "activation_backward");
  return {{"y", widen(y.values())}, {"dx", widen(dx.values())}};
}
template <Activation kActivation>
Arrays right_activation(const Problem& p) {
  const auto &x = p.arrays.at("x"), &dy = p.arrays.at("dy");
  std::vector<double> y(x.size()), dx(x.size());
  activation_forward<double>(kPlain, kActivation, x.size(), x.data(), y.data());
  activation_backward<double>(kPlain, kActivation, x.size(), y.data(), dy.data(), dx.data());
  return {{"y", y}, {"dx", dx}};
}

Arrays solve_bias(const Gpu& gpu, int version, const Problem& p) {
  const std::size_t rows = p.size("rows"), columns = p.size("cols");
  Buffer<float> y(gpu, p.floats("x")), b(gpu, p.floats("b")), dy(gpu, p.floats("dy")), db(gpu, columns);
  db.zero();
  gpu.check(gpu->bias_forward({.version = version}, rows, columns, b, y), "bias_forward");
  gpu.check(gpu->bias_backward({.version = version}, rows, columns, dy, db), "bias_backward");
  return {{"y", widen(y.values())}, {"db", widen(db.values())}};
}
Arrays right_bias(const Problem& p) {
  const auto &x = p.arrays.at("x"), &dy = p.arrays.at("dy"), &b = p.arrays.at("b");
  std::vector<double> y(x.size()), db(b.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] + b[i % b.size()];
    db[i % b.size()] += dy[i];
  }
  return {{"y", y}, {"db", db}};
}

}  // namespace

std::vector<Operation> row_operations() {
  const auto make = [](const char* name) { return [name](bool small) { return matrices(name, small); }; };
  const std::vector<std::string> sizes{"rows", "cols"};
  return {
      {"layernorm",
       "layernorm",
       sizes,
       {"x", "w", "b", "dy"},
       {1, 2},
       1e-5,
       make("layernorm"),
       solve_layernorm,
       right_layernorm},
      {"rmsnorm", "rmsnorm", sizes, {"x", "w", "dy"}, {1, 2}, 1e-5, make("rmsnorm"), solve_rmsnorm, right_rmsnorm},
      {"softmax", "softmax", sizes, {"x", "dy"}, {1, 2}, 1e-5, make("softmax"), solve_softmax, right_softmax},
      {"softmax_masked",
       "softmax_masked",
       sizes,
       {"x", "dy", "mask"},
       {1, 2},
       1e-5,
       masked,
       solve_softmax,
       right_softmax},
      {"softmax_causal", "softmax_causal", {"time"}, {"x", "dy"}, {1, 2}, 1e-5, causal, solve_softmax, right_softmax},
      {"cross_entropy",
       "cross_entropy",
       sizes,
       {"logits", "targets"},
       {1, 2},
       1e-5,
       entropies,
       solve_entropy,
       right_entropy},
      {"gelu",
       "gelu_tanh",
       {},
       {"x", "dy"},
       {1, 2},
       1e-5,
       [](bool small) { return lines("gelu", small); },
       solve_gelu,
       right_gelu},
      {"tanh", "", {}, {}, {1, 2}, 1e-5, activations, solve_activation<Activation::kTanh>,
       right_activation<Activation::kTanh>},
      {"relu", "", {}, {}, {1, 2}, 1e-6, activations, solve_activation<Activation::kRelu>,
       right_activation<Activation::kRelu>},
      {"bias", "", sizes, {}, {1, 2}, 1e-5, make("bias"), solve_bias, right_bias},
  };
}

}  // namespace gpu_test
