// Embedding, AdamW, global norm, GAE and V-trace.
#include "kernels/cpu/rows/embedding.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "kernels/cpu/scans/scans.h"

#include "tests/gpu/operations.h"

namespace gpu_test {
namespace {

using namespace troupe::kernels;
constexpr Isa kPlain = Isa::kReference;

std::vector<Problem> embeddings(bool small) {
  std::vector<Problem> out;
  for (const auto& [vocab, channels, batch, time] :
       {std::tuple{1, 1, 1, 1},
        {17, 15, 2, 33},
        {65, 64, 3, 17},
        {small ? 97 : 50257, small ? 36 : 768, small ? 2 : 8, small ? 15 : 1024}}) {
    Problem p{"embedding v" + std::to_string(vocab) + " c" + std::to_string(channels), {}, {}};
    p.sizes = {{"vocab", vocab}, {"channels", channels}, {"batch", batch}, {"time", time}};
    const std::size_t rows = std::size_t(batch) * time, c = std::size_t(channels);
    p.arrays = {{"idx", random_integers(rows, 1, 0, vocab)}, {"dy", random_values(rows * c, 2)},
                {"wte", random_values(std::size_t(vocab) * c, 3)}, {"wpe", random_values(std::size_t(time) * c, 4)}};
    out.push_back(p);
  }
  return out;
}
Arrays solve_embedding(const Gpu& gpu, int version, const Problem& p) {
  const std::size_t batch = p.size("batch"), time = p.size("time"), channels = p.size("channels");
  Buffer<std::int32_t> tokens(gpu, p.integers("idx"));
  Buffer<float> wte(gpu, p.floats("wte")), wpe(gpu, p.floats("wpe")), dy(gpu, p.floats("dy")),
      y(gpu, batch * time * channels);
  Buffer<float> dwte(gpu, p.arrays.at("wte").size()), dwpe(gpu, p.arrays.at("wpe").size());
  dwte.zero();
  dwpe.zero();
  const Call call{.version = version};
  gpu.check(gpu->embedding_forward(call, batch, time, channels, tokens, wte, wpe, y), "embedding_forward");
  gpu.check(gpu->embedding_backward(call, batch, time, channels, tokens, dy, dwte, dwpe), "embedding_backward");
  return {{"y", widen(y.values())}, {"dwte", widen(dwte.values())}, {"dwpe", widen(dwpe.values())}};
}
Arrays right_embedding(const Problem& p) {
  const EmbeddingShape s{p.size("batch"), p.size("time"), p.size("channels")};
  const auto tokens = p.integers("idx");
  const auto &wte = p.arrays.at("wte"), &wpe = p.arrays.at("wpe"), &dy = p.arrays.at("dy");
  std::vector<double> y(dy.size()), dwte(wte.size()), dwpe(wpe.size());
  embedding_forward<double>(s, tokens.data(), wte.data(), wpe.data(), y.data());
  embedding_backward<double>(s, tokens.data(), dy.data(), dwte.data(), dwpe.data());
  return {{"y", y}, {"dwte", dwte}, {"dwpe", dwpe}};
}

// Three tensors, one of them empty; the recorded cases have the state after each step.
std::vector<Problem> adams(bool small) {
  std::vector<Problem> out;
  for (const std::size_t n :
       {std::size_t{1}, std::size_t{15}, std::size_t{33}, std::size_t{small ? 9001u : 1000003u}}) {
    Problem p{"adamw " + std::to_string(n), {}, {}};
    p.sizes = {
        {"n", static_cast<double>(n)}, {"steps", 3}, {"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8},
        {"weight_decay", 0.1}};
    p.arrays = {{"p0", random_values(n, 1)}, {"grads", random_values(3 * n, 2)}};
    out.push_back(p);
  }
  return out;
}
std::vector<std::size_t> cuts(std::size_t n) { return {0, n / 3, n / 3, n}; }

Arrays solve_adamw(const Gpu& gpu, int version, const Problem& p) {
  const std::size_t n = p.size("n"), steps = p.size("steps");
  Buffer<float> params(gpu, p.floats("p0")), grads(gpu, p.floats("grads")), m(gpu, n), v(gpu, n);
  Buffer<std::uint16_t> working(gpu, n);
  m.zero();
  v.zero();
  Arrays out{{"p", {}}, {"m", {}}, {"v", {}}};
  const auto keep = [&](const char* name, const Buffer<float>& from) {
    const auto values = from.values();
    out[name].insert(out[name].end(), values.begin(), values.end());
  };
  for (std::size_t k = 0; k < steps; ++k) {
    std::vector<cuda::AdamwTensor> tensors;
    const auto cut = cuts(n);
    for (std::size_t i = 0; i + 1 < cut.size(); ++i)
      tensors.push_back(
          {params + cut[i], grads + k * n + cut[i], m + cut[i], v + cut[i], working + cut[i], cut[i + 1] - cut[i], 1});
    const cuda::AdamwArguments a{.tensors = tensors.data(),
                                 .tensor_count = tensors.size(),
                                 .step = static_cast<std::int64_t>(k) + 1,
                                 .learning_rate = p.sizes.at("lr"),
                                 .beta1 = p.sizes.at("beta1"),
                                 .beta2 = p.sizes.at("beta2"),
                                 .epsilon = p.sizes.at("eps"),
                                 .weight_decay = p.sizes.at("weight_decay"),
                                 .grad_scale = 1,
                                 .device_scale = nullptr};
    gpu.check(gpu->adamw({.version = version}, &a), "adamw");
    keep("p", params);
    keep("m", m);
    keep("v", v);
  }
  const auto half = working.values();
  const auto whole = params.values();
  for (std::size_t i = 0; i < n; ++i)
    if (half[i] != troupe::bfloat16(whole[i]).bits())
      throw Failure("adamw: the bfloat16 copy is not the rounded parameter");
  return out;
}
Arrays right_adamw(const Problem& p) {
  const std::size_t n = p.size("n");
  std::vector<double> params = p.arrays.at("p0"), m(n), v(n);
  const AdamOptions options{p.sizes.at("lr"), p.sizes.at("beta1"), p.sizes.at("beta2"), p.sizes.at("eps"),
                            p.sizes.at("weight_decay")};
  Arrays out{{"p", {}}, {"m", {}}, {"v", {}}};
  for (std::size_t k = 0; k < p.size("steps"); ++k) {
    const AdamTensor<double> all{{params, std::span(p.arrays.at("grads")).subspan(k * n, n), m, v}};
    adamw_step<double>(kPlain, std::span(&all, 1), static_cast<std::int64_t>(k) + 1, 1.0, options);
    for (const auto& [name, values] : {std::pair{"p", &params}, {"m", &m}, {"v", &v}})
      out[name].insert(out[name].end(), values->begin(), values->end());
  }
  return out;
}

std::vector<Problem> norms(bool small) {
  std::vector<Problem> out;
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{4095}, std::size_t{4097},
                              std::size_t{small ? 70001u : 1000003u}})
    out.push_back({"global_norm " + std::to_string(n), {}, {{"g", random_values(n, 1)}}});
  return out;
}
Arrays solve_norm(const Gpu& gpu, int version, const Problem& p) {
  const auto g = p.floats("g");
  Buffer<float> values(gpu, g);
  Buffer<double> sums(gpu, g.size() / kNormBlock + 1), result(gpu, 2);
  gpu.check(gpu->global_norm({.version = version}, values, g.size(), 0.5, sums, result), "global_norm");
  return {{"result", result.values()}};
}
Arrays right_norm(const Problem& p) {
  const auto g = p.floats("g");
  const double norm = global_norm<float>(std::span<const float>(g));
  return {{"result", {norm, clip_scale(norm, 0.5)}}};  // KO-2: the same bits
}

std::vector<Problem> rollouts(const std::string& name, bool small) {
  std::vector<Problem> out;
  for (const auto& [steps, envs] :
       {std::pair{1, 1}, {15, 17}, {33, 15}, {100, 33}, {small ? 64 : 2048, small ? 65 : 1000}}) {
    const std::size_t n = std::size_t(steps) * envs, e = std::size_t(envs);
    Problem p{name + " " + std::to_string(steps) + "x" + std::to_string(envs), {{"steps", steps}, {"envs", envs}}, {}};
    p.arrays = {{"reward", random_values(n, 1)},
                {"value", random_values(n, 2)},
                {"final_value", random_values(n, 3)},
                {"last_value", random_values(e, 4)},
                {"behaviour", random_values(n, 5, 0.5)},
                {"target", random_values(n, 6, 0.5)},
                {"terminated", random_integers(n, 7, 0, 10)},
                {"truncated", random_integers(n, 8, 0, 10)},
                {"discount", {}}};
    for (const char* flag : {"terminated", "truncated"})
      for (double& x : p.arrays[flag]) x = x == 0 ? 1 : 0;
    for (const double ended : p.arrays["terminated"]) p.arrays["discount"].push_back(ended != 0 ? 0 : 0.99);
    out.push_back(p);
  }
  return out;
}
Arrays solve_gae(const Gpu& gpu, int version, const Problem& p) {
  const std::size_t n = p.arrays.at("reward").size();
  Buffer<float> reward(gpu, p.floats("reward")), value(gpu, p.floats("value")),
      final_value(gpu, p.floats("final_value"));
  Buffer<float> last(gpu, p.floats("last_value")), advantage(gpu, n), returns(gpu, n);
  Buffer<std::uint8_t> terminated(gpu, p.bytes("terminated")), truncated(gpu, p.bytes("truncated"));
  const cuda::GaeArguments a{p.size("steps"), p.size("envs"), reward,    value,   final_value, terminated,
                             truncated,       last,           advantage, returns, 0.99,        0.95};
  gpu.check(gpu->gae({.version = version}, &a), "gae");
  return {{"advantage", widen(advantage.values())}, {"returns", widen(returns.values())}};
}
Arrays right_gae(const Problem& p) {
  const auto &reward = p.arrays.at("reward"), &value = p.arrays.at("value");
  const auto terminated = p.bytes("terminated"), truncated = p.bytes("truncated");
  std::vector<double> advantage(reward.size()), returns(reward.size());
  gae_scan<double>(kPlain, {p.size("steps"), p.size("envs")},
                   {reward.data(), value.data(), p.arrays.at("final_value").data(), terminated.data(), truncated.data(),
                    p.arrays.at("last_value").data(), advantage.data(), returns.data()},
                   {0.99, 0.95});
  return {{"advantage", advantage}, {"returns", returns}};
}
Arrays solve_vtrace(const Gpu& gpu, int version, const Problem& p) {
  const std::size_t n = p.arrays.at("reward").size();
  Buffer<float> behaviour(gpu, p.floats("behaviour")), target(gpu, p.floats("target")),
      discount(gpu, p.floats("discount"));
  Buffer<float> reward(gpu, p.floats("reward")), value(gpu, p.floats("value")), last(gpu, p.floats("last_value")),
      vs(gpu, n), pg(gpu, n);
  const cuda::VtraceArguments a{
      p.size("steps"), p.size("envs"), behaviour, target, discount, reward, value, last, vs, pg, 1.0, 0.9, 1.1, 0.95};
  gpu.check(gpu->vtrace({.version = version}, &a), "vtrace");
  return {{"vs", widen(vs.values())}, {"pg", widen(pg.values())}};
}
Arrays right_vtrace(const Problem& p) {
  std::vector<double> vs(p.arrays.at("reward").size()), pg(vs.size());
  vtrace_scan<double>(kPlain, {p.size("steps"), p.size("envs")},
                      {p.arrays.at("behaviour").data(), p.arrays.at("target").data(), p.arrays.at("discount").data(),
                       p.arrays.at("reward").data(), p.arrays.at("value").data(), p.arrays.at("last_value").data(),
                       vs.data(), pg.data()},
                      {1.0, 0.9, 1.1, 0.95});
  return {{"vs", vs}, {"pg", pg}};
}

}  // namespace

std::vector<Operation> training_operations() {
  return {
      {"embedding",
       "embedding",
       {"vocab", "channels", "batch", "time"},
       {"idx", "wte", "wpe", "dy"},
       {1, 2},
       1e-6,
       embeddings,
       solve_embedding,
       right_embedding},
      {"adamw",
       "adamw",
       {"n", "steps", "lr", "beta1", "beta2", "eps", "weight_decay"},
       {"p0", "grads"},
       {1, 2},
       2e-6,
       adams,
       solve_adamw,
       right_adamw},
      {"global_norm", "", {}, {}, {1, 2}, 0, norms, solve_norm, right_norm},
      {"gae", "", {}, {}, {1, 2}, 1e-5, [](bool small) { return rollouts("gae", small); }, solve_gae, right_gae},
      {"vtrace",
       "",
       {},
       {},
       {1, 2},
       1e-5,
       [](bool small) { return rollouts("vtrace", small); },
       solve_vtrace,
       right_vtrace},
  };
}

}  // namespace gpu_test
