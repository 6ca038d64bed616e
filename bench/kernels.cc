// The kernels, each beside the machine's own ceilings, measured in the same run: for what moves data, a copy of the
// same size (the better of memcpy and streaming stores; bytes read plus bytes written); for what calculates,
// independent multiply-adds in registers. One thread. Times are the least of many runs on both sides, which is what a
// shared machine lets one compare. Every version that the machine can run is in the table; the rows are those of the
// best.
//
//   kernels/linear_*   with --peer NAME=LIBRARY, the library's products run in turns with ours: one run of each after
//                      the other, on the same memory, the least of as many runs. backward is both of its products (and,
//                      in ours only, the bias). What a library computes is compared with ours first: a wrong one is an
//                      error
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "bench/blas_library.h"
#include "bench/harness.h"
#include "bench/kernels_peak.h"
#include "kernels/cpu/linear/attention.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/rows/embedding.h"
#include "kernels/cpu/linear/matmul.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "kernels/cpu/reduce/reduce.h"
#include "kernels/cpu/rows/rows.h"
#include "kernels/cpu/scans/scans.h"

namespace troupe::bench {
namespace {

using namespace troupe::kernels;

using Run = std::function<void(Isa)>;
using PeerRun = std::function<void(const BlasLibrary&)>;

// What is timed, and what another library does for the same on the same memory; `written` is compared.
struct Prepared {
  Run run{};
  PeerRun peer{};  // empty: no library has this
  std::vector<std::shared_ptr<std::vector<float>>> written{};
  Prepared() = default;
  template <class Body>
  Prepared(Body body) : run(std::move(body)) {}  // NOLINT: most cases are a body alone
};

constexpr double kSlow = 2e8;  // the reference is not timed on more operations than that: seconds a run

struct Case {
  std::string name;
  double flops = 0;                ///< 0: counted in bytes
  double bytes = 0;                ///< read plus written
  std::function<Prepared()> prepare{};  ///< allocates and gives what is timed
};

// Memory of one case: floats of random values, never subnormal, so that no run is slow for their sake.
std::shared_ptr<std::vector<float>> floats(std::size_t count) {
  auto out = std::make_shared<std::vector<float>>(count);
  std::mt19937 random(1);
  for (float& v : *out) v = static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f;
  return out;
}

double least_seconds(const std::function<void()>& run, double budget) {
  run();
  double least = 1e9;
  const auto start = Clock::now();
  for (int i = 0; i < 2 || seconds_since(start) < budget; ++i) {
    const auto before = Clock::now();
    run();
    least = std::min(least, seconds_since(before));
  }
  return least;
}

Case reduce_case(const std::string& name, DType type, std::size_t inputs, std::size_t bytes) {
  const std::size_t count = bytes / size_of(type);
  return {.name = "reduce_" + name, .bytes = static_cast<double>(bytes * (inputs + 1)), .prepare = [=]() -> Prepared {
            auto memory = floats(bytes / 4 * (inputs + 1));
            auto pointers = std::make_shared<std::vector<const void*>>();
            if (type != DType::kF32) {
              for (std::size_t k = 0; k <= inputs; ++k) {
                const auto part = floats(count);
                cast(memory->data() + k * bytes / 4, type, part->data(), DType::kF32, count);
              }
            }
            for (std::size_t k = 0; k < inputs; ++k) pointers->push_back(memory->data() + (k + 1) * bytes / 4);
            return [=](Isa isa) {
              reduce(isa, memory->data(), *pointers, count, type, {.stream = bytes >= (16u << 20)});
            };
          }};
}

Case cast_case(const std::string& name, DType to, DType from, std::size_t count) {
  return {.name = "cast_" + name,
          .bytes = static_cast<double>(count * (size_of(to) + size_of(from))),
          .prepare = [=]() -> Prepared {
            auto in = floats(count), out = floats(count);
            return [=](Isa isa) { cast(isa, out->data(), to, in->data(), from, count); };
          }};
}

void add_linear(std::vector<Case>& cases, std::size_t rows, std::size_t in, std::size_t out) {
  const LinearShape shape{rows, in, out};
  const std::string size = std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out);
  const double flops = 2.0 * static_cast<double>(rows * in * out);
  const auto forward = [=]() -> Prepared {
    auto x = floats(rows * in), w = floats(in * out), b = floats(out), y = floats(rows * out);
    std::fill(b->begin(), b->end(), 0.0f);  // the libraries add none
    Prepared prepared([=](Isa isa) { linear_forward<float>(isa, shape, x->data(), w->data(), b->data(), y->data()); });
    prepared.peer = [=](const BlasLibrary& library) {
      library.multiply(rows, out, in, {x->data(), in}, {w->data(), in, true}, y->data(), out, false);
    };
    prepared.written = {y};
    return prepared;
  };
  const auto backward = [=]() -> Prepared {
    auto x = floats(rows * in), w = floats(in * out), dy = floats(rows * out);
    auto dx = floats(rows * in), dw = floats(in * out), db = floats(out);
    Prepared prepared([=](Isa isa) {
      linear_backward<float>(isa, shape, x->data(), w->data(), dy->data(), {dx->data(), dw->data(), db->data()});
    });
    prepared.peer = [=](const BlasLibrary& library) {
      library.multiply(rows, in, out, {dy->data(), out}, {w->data(), in}, dx->data(), in, false);
      library.multiply(out, in, rows, {dy->data(), out, true}, {x->data(), in}, dw->data(), in, true);
    };
    prepared.written = {dx, dw};
    return prepared;
  };
  cases.push_back({.name = "linear_forward_" + size, .flops = flops, .prepare = forward});
  cases.push_back({.name = "linear_backward_" + size, .flops = 2 * flops, .prepare = backward});
}

void add_attention(std::vector<Case>& cases, const AttentionShape& s, const std::string& size) {
  const std::size_t count = s.batch * s.time * s.channels, rows = s.batch * s.heads * s.time;
  // Two products over the lower triangle, the diagonal included.
  const double flops = 2.0 * static_cast<double>(s.batch * s.time * (s.time + 1) * s.channels);
  for (bool backward : {false, true}) {
    cases.push_back({.name = (backward ? "attention_backward_" : "attention_forward_") + size,
                     .flops = backward ? 2 * flops : flops,
                     .prepare = [=]() -> Prepared {
                       auto qkv = floats(3 * count), out = floats(count), lse = floats(rows);
                       auto probs = floats(rows * s.time);
                       auto dqkv = floats(3 * count);
                       auto workspace = std::make_shared<AttentionWorkspace<float>>();
                       const AttentionState<float> state{lse->data(), probs->data()};
                       attention_forward<float>(best_isa(), s, qkv->data(), out->data(), state, *workspace);
                       return [=](Isa isa) {
                         if (backward) attention_backward<float>(isa, s, qkv->data(), state, out->data(), dqkv->data(),
                                                                 *workspace);
                         else attention_forward<float>(isa, s, qkv->data(), out->data(), state, *workspace);
                         static_cast<void>(probs), static_cast<void>(lse);  // kept alive
                       };
                     }});
  }
}

void add_rows(std::vector<Case>& cases, RowsShape s) {
  const std::string size = std::to_string(s.rows) + "x" + std::to_string(s.columns);
  const std::size_t n = s.rows * s.columns;
  const double pass = 4.0 * static_cast<double>(n);
  cases.push_back({.name = "layernorm_forward_" + size, .bytes = 2 * pass, .prepare = [=]() -> Prepared {
                     auto x = floats(n), w = floats(s.columns), b = floats(s.columns), y = floats(n);
                     auto t = floats(2 * s.rows);
                     return [=](Isa isa) {
                       layernorm_forward<float>(isa, s, x->data(), w->data(), b->data(), y->data(),
                                                {t->data(), t->data() + s.rows});
                     };
                   }});
  cases.push_back({.name = "layernorm_backward_" + size, .bytes = 3 * pass, .prepare = [=]() -> Prepared {
                     auto x = floats(n), w = floats(s.columns), dy = floats(n), dx = floats(n), t = floats(2 * s.rows);
                     auto dw = floats(s.columns), db = floats(s.columns);
                     return [=](Isa isa) {
                       layernorm_backward<float>(isa, s, x->data(), w->data(), {t->data(), t->data() + s.rows},
                                                 dy->data(), dx->data(), dw->data(), db->data());
                     };
                   }});
  cases.push_back({.name = "rmsnorm_forward_" + size, .bytes = 2 * pass, .prepare = [=]() -> Prepared {
                     auto x = floats(n), w = floats(s.columns), y = floats(n), t = floats(s.rows);
                     return [=](Isa isa) {
                       rmsnorm_forward<float>(isa, s, x->data(), w->data(), y->data(), t->data());
                     };
                   }});
  cases.push_back({.name = "gelu_forward_" + size, .bytes = 2 * pass, .prepare = [=]() -> Prepared {
                     auto x = floats(n), y = floats(n);
                     return [=](Isa isa) { gelu_forward<float>(isa, n, x->data(), y->data()); };
                   }});
  cases.push_back({.name = "gelu_backward_" + size, .bytes = 3 * pass, .prepare = [=]() -> Prepared {
                     auto x = floats(n), dy = floats(n), dx = floats(n);
                     return [=](Isa isa) { gelu_backward<float>(isa, n, x->data(), dy->data(), dx->data()); };
                   }});
  cases.push_back({.name = "softmax_forward_" + size, .bytes = 2 * pass, .prepare = [=]() -> Prepared {
                     auto x = floats(n), y = floats(n);
                     return [=](Isa isa) { softmax_forward<float>(isa, s, x->data(), nullptr, y->data()); };
                   }});
}

Case cross_entropy_case(RowsShape s) {
  const std::size_t n = s.rows * s.columns;
  return {.name = "cross_entropy_" + std::to_string(s.rows) + "x" + std::to_string(s.columns),
          .bytes = 8.0 * static_cast<double>(n),
          .prepare = [=]() -> Prepared {
            auto x = floats(n), d = floats(n), loss = floats(s.rows);
            auto targets = std::make_shared<std::vector<std::int32_t>>(s.rows, 3);
            return [=](Isa isa) {
              cross_entropy<float>(isa, s, x->data(), targets->data(), {loss->data(), d->data()});
            };
          }};
}

void add_optimizer(std::vector<Case>& cases, std::size_t n) {
  const std::string size = std::to_string(n);
  cases.push_back({.name = "adamw_" + size, .bytes = 28.0 * static_cast<double>(n), .prepare = [=]() -> Prepared {
                     auto p = floats(n), g = floats(n), m = floats(n), v = floats(n);
                     for (float& x : *v) x = std::abs(x);
                     return [=](Isa isa) {
                       adam_step<float>(isa, {*p, *g, *m, *v}, 1000, 1.0, {.weight_decay = 0.1});
                     };
                   }});
  cases.push_back({.name = "global_norm_" + size, .bytes = 4.0 * static_cast<double>(n), .prepare = [=]() -> Prepared {
                     auto g = floats(n);
                     auto sink = std::make_shared<double>();
                     return [=](Isa) { *sink += global_norm<float>(*g); };
                   }});
}

void add_scans(std::vector<Case>& cases) {
  const ScanShape s{128, 256};
  const std::size_t n = s.steps * s.envs;
  cases.push_back({.name = "gae_128x256", .bytes = 22.0 * static_cast<double>(n), .prepare = [=]() -> Prepared {
                     auto in = floats(3 * n + s.envs), out = floats(2 * n);
                     auto flags = std::make_shared<std::vector<std::uint8_t>>(2 * n);
                     return [=](Isa isa) {
                       const float* f = in->data();
                       gae_scan<float>(isa, s, {f, f + n, f + 2 * n, flags->data(), flags->data() + n, f + 3 * n,
                                                out->data(), out->data() + n}, {});
                     };
                   }});
  cases.push_back({.name = "vtrace_128x256", .bytes = 28.0 * static_cast<double>(n), .prepare = [=]() -> Prepared {
                     auto in = floats(5 * n + s.envs), out = floats(2 * n);
                     return [=](Isa isa) {
                       const float* f = in->data();
                       vtrace_scan<float>(isa, s, {f, f + n, f + 2 * n, f + 3 * n, f + 4 * n, f + 5 * n, out->data(),
                                                   out->data() + n}, {});
                     };
                   }});
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& [size, bytes] : {std::pair{"1MiB", 1u << 20}, std::pair{"64MiB", 64u << 20}}) {
    cases.push_back(reduce_case(std::string("f32_2_") + size, DType::kF32, 2, bytes));
    cases.push_back(reduce_case(std::string("f32_4_") + size, DType::kF32, 4, bytes));
    cases.push_back(reduce_case(std::string("bf16_2_") + size, DType::kBF16, 2, bytes));
    cases.push_back(reduce_case(std::string("f16_2_") + size, DType::kF16, 2, bytes));
  }
  cases.push_back(reduce_case("i32_2_1MiB", DType::kI32, 2, 1u << 20));
  cases.push_back(cast_case("f32_bf16_1Mi", DType::kBF16, DType::kF32, 1u << 20));
  cases.push_back(cast_case("bf16_f32_1Mi", DType::kF32, DType::kBF16, 1u << 20));
  add_linear(cases, 768, 128, 384);
  add_linear(cases, 768, 128, 512);
  add_linear(cases, 768, 512, 128);
  add_linear(cases, 2048, 384, 1152);
  add_linear(cases, 2048, 384, 1536);
  add_linear(cases, 2048, 1536, 384);
  add_attention(cases, {12, 64, 4, 128}, "12x64x4x128");
  add_attention(cases, {8, 256, 6, 384}, "8x256x6x384");
  add_rows(cases, {768, 128});
  add_rows(cases, {2048, 1536});
  cases.push_back(cross_entropy_case({768, 65}));
  cases.push_back(cross_entropy_case({64, 50257}));
  add_optimizer(cases, 809'856);
  add_optimizer(cases, 10'000'000);
  add_scans(cases);
  return cases;
}

// The best copy of this many bytes in all (half read, half written), in bytes a second; sizes are taken to the next
// power of two, and each is measured once.
class CopyCeiling {
 public:
  explicit CopyCeiling(double budget) : budget_(budget) {}
  double operator()(double bytes) {
    std::size_t half = 4096;
    while (2.0 * static_cast<double>(half) < bytes) half *= 2;
    const auto known = known_.find(half);
    if (known != known_.end()) return known->second;
    std::vector<char> from(half, 1), to(half, 2);
    double least = 1e9;
    for (bool streaming : {false, true})
      least =
          std::min(least, least_seconds([&] { copy(to.data(), from.data(), half, {.stream = streaming}); }, budget_));
    return known_[half] = 2.0 * static_cast<double>(half) / least;
  }

 private:
  double budget_;
  std::map<std::size_t, double> known_;
};

// The libraries that are asked for, by name.
std::map<std::string, BlasLibrary> load_peers(const Harness& harness) {
  std::map<std::string, BlasLibrary> peers;
  for (const auto& [name, file] : harness.peer_files()) peers.emplace(name, BlasLibrary(file));
  return peers;
}

// Does the library compute what we do, from the same start?
void check(const std::string& name, const BlasLibrary& library, const Prepared& prepared) {
  std::vector<std::vector<float>> before, ours;
  for (const auto& memory : prepared.written) before.push_back(*memory);
  prepared.run(best_isa());
  for (const auto& memory : prepared.written) ours.push_back(*memory);
  for (std::size_t i = 0; i < before.size(); ++i) *prepared.written[i] = before[i];
  prepared.peer(library);
  for (std::size_t i = 0; i < ours.size(); ++i)
    for (std::size_t at = 0; at < ours[i].size(); ++at)
      if (!(std::abs(ours[i][at] - (*prepared.written[i])[at]) < 1e-3f * (1 + std::abs(ours[i][at]))))
        throw std::runtime_error(name + " computes something else on this processor");
}

struct Least {
  double ours = 1e9;
  std::map<std::string, double> peers{};
};

// Ours and the libraries, one run of each in turn.
Least least_in_turns(const Prepared& prepared, const std::map<std::string, BlasLibrary>& peers, double budget) {
  Least least;
  for (const auto& [name, library] : peers) {
    check(name, library, prepared);
    least.peers[name] = 1e9;
  }
  const auto timed = [](const std::function<void()>& run) {
    const auto before = Clock::now();
    run();
    return seconds_since(before);
  };
  const auto start = Clock::now();
  for (int i = 0; i < 3 || seconds_since(start) < budget; ++i) {
    least.ours = std::min(least.ours, timed([&] { prepared.run(best_isa()); }));
    for (const auto& [name, library] : peers) {
      double& best = least.peers[name];
      best = std::min(best, timed([&, &rival = library] { prepared.peer(rival); }));
    }
  }
  return least;
}

void print(const Case& c, const std::string& version, double seconds, double ceiling) {
  const double rate = (c.flops != 0 ? c.flops : c.bytes) / seconds;
  std::printf("%-36s %-10s %9.1f us %9.2f %s %6.1f %%\n", c.name.c_str(), version.c_str(), seconds * 1e6, rate * 1e-9,
              c.flops != 0 ? "GFLOP/s" : "GB/s   ", 100 * rate / ceiling);
}

void measure_case(Harness& harness, const Case& c, double ceiling,
                  const std::map<std::string, BlasLibrary>& libraries) {
  const double budget = harness.choose(0.15, 0.01);
  const Prepared prepared = c.prepare();
  const double amount = c.flops != 0 ? c.flops : c.bytes;
  for (Isa isa : kAllIsas) {
    if (!isa_supported(isa) || isa == best_isa() || (isa == Isa::kReference && c.flops > kSlow)) continue;
    print(c, std::string(isa_name(isa)), least_seconds([&] { prepared.run(isa); }, budget / 2), ceiling);
  }
  const auto& rivals = prepared.peer ? libraries : std::map<std::string, BlasLibrary>{};
  const Least least = least_in_turns(prepared, rivals, 2 * budget * static_cast<double>(1 + rivals.size()));
  print(c, std::string(isa_name(best_isa())), least.ours, ceiling);
  Row row{.row = "kernels/" + c.name,
          .value = amount / least.ours * 1e-9,
          .floor = ceiling * 1e-9,
          .unit = c.flops != 0 ? "GFLOP/s" : "GB/s",
          .better = "higher"};
  for (const auto& [name, seconds] : least.peers) {
    print(c, name, seconds, ceiling);
    row.peers[name] = amount / seconds * 1e-9;
  }
  harness.report(std::move(row));
}

void measure(Harness& harness) {
  const double budget = harness.choose(0.15, 0.01);
  CopyCeiling copies(budget);
  double peak = 0;
  for (int i = 0; i < 5; ++i) peak = std::max(peak, multiply_add_peak(budget));
  std::printf("# multiply-add peak of one thread: %.1f GFLOP/s\n%-36s %-10s %12s %16s %8s\n", peak * 1e-9, "kernel",
              "version", "time", "rate", "share");
  const std::map<std::string, BlasLibrary> libraries = load_peers(harness);
  for (const Case& c : all_cases())
    if (harness.wants("kernels/" + c.name)) measure_case(harness, c, c.flops != 0 ? peak : copies(c.bytes), libraries);
}

std::vector<std::string> row_names() {
  std::vector<std::string> names;
  for (const Case& c : all_cases()) names.push_back("kernels/" + c.name);
  return names;
}

}  // namespace

const Program program{.rows = row_names(), .measure = &measure, .runtime = false};

}  // namespace troupe::bench
