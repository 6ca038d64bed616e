// Learners' networks on a GPU: that they give what the CPU gives, and how long a pass takes on either.
//
//   gpu_rl [--plugin FILE] [--small] [--json FILE]
//
// A pass is forward and backward of one minibatch, whose parameters have changed: rows and parameters go up, outputs
// and gradients come down. Networks are linear layers (two of 1,024 units, 4,096 rows) and the convolutions of Atari
// (84 x 84 x 4). --small: sizes for the emulated plug-in. --plugin FILE: libtroupe_cuda.so; by default the one beside
// this program. TROUPE_CUBLASLT_LIB names cuBLASLt. Exit code: 0 all right, 1 something is wrong, 2 wrong usage, 77 no
// GPU (a skip).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <troupe/error.h>

#include "apps/rl/networks/network.h"

namespace gpu_test {
namespace {

using namespace rl;
constexpr int kSkip = 77;
// |got - want| / |want|: sums of thousands of floats, in another order. Of millions of ReLUs some are so near 0 that
// they then have the other slope: sqrt(100 of 1e7) of the gradients.
constexpr double kFarthest = 1e-4, kFarthestSlopes = 1e-2;

struct Options {
  std::string plugin, json;
  bool small = false;
};

struct Setup {
  const char* name;
  NetworkSpec spec;
  std::size_t rows;
};
std::vector<Setup> setups(bool small) {
  const std::size_t units = small ? 48 : 1024;
  const std::size_t side = small ? 20 : 84;
  return {{"relu layers",
           {.input = {small ? 9u : 64u}, .hidden = {units, units}, .activation = Activation::kRelu, .outputs = 8},
           small ? 70u : 4096u},
          {"tanh layers", {.input = {small ? 9u : 64u}, .hidden = {units, units}, .outputs = 8}, small ? 70u : 4096u},
          {"one row", {.input = {small ? 9u : 64u}, .hidden = {units, units}, .outputs = 8}, 1},
          {"convolutions",
           {.input = {side, side, 4},
            .convolutions = {{.filters = small ? 4u : 32u, .kernel = 8, .stride = 4},
                             {.filters = small ? 4u : 64u, .kernel = 4, .stride = small ? 1u : 2u}},
            .hidden = {small ? 16u : 512u},
            .activation = Activation::kRelu,
            .outputs = 6},
           small ? 3u : 256u}};
}

struct Numbers {
  std::vector<float> params, x, dy, y, grads, dx;
};
Numbers numbers_for(const Setup& setup) {
  Generator random(7);
  Numbers n{.params = std::vector<float>(setup.spec.parameter_count()), .x = {}, .dy = {}, .y = {}, .grads = {},
            .dx = {}};
  initialize(setup.spec, random, n.params);
  const auto drawn = [&](std::size_t count) {
    std::vector<float> out(count);
    for (float& v : out) v = static_cast<float>(random.uniform(-1, 1));
    return out;
  };
  n.x = drawn(setup.rows * setup.spec.inputs()), n.dy = drawn(setup.rows * setup.spec.row_size());
  n.y.resize(n.dy.size()), n.grads.resize(n.params.size()), n.dx.resize(n.x.size());
  return n;
}

double distance(const std::vector<float>& got, const std::vector<float>& want) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    off += difference * difference, all += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return std::sqrt(off / all);
}

/// Median milliseconds of `repeats` passes.
double time(Network<float>& net, Numbers& n, int repeats) {
  std::vector<double> each;
  for (int i = 0; i < repeats + 1; ++i) {
    n.params.back() += 0x1p-10f;  // an optimizer was here
    const auto began = std::chrono::steady_clock::now();
    net.forward(n.params, n.x, n.y);
    net.backward(n.params, n.dy, n.grads);
    if (i > 0)
      each.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
  }
  std::ranges::sort(each);
  return each[each.size() / 2];
}

struct Outcome {
  const char* name;
  double y, grads, dx;         // distances
  double cpu_ms, gpu_ms;
};

Outcome compare(const Setup& setup, const Gpu& gpu) {
  const auto there = make_network<float>(setup.spec, {.input_gradients = true, .gpu = gpu});
  const auto here = make_network<float>(setup.spec, {.input_gradients = true});
  Numbers got = numbers_for(setup), want = got;
  for (auto [net, n] : {std::pair(there.get(), &got), std::pair(here.get(), &want)}) {
    net->forward(n->params, n->x, n->y);
    net->backward(n->params, n->dy, n->grads, n->dx);
  }
  Outcome out{.name = setup.name, .y = distance(got.y, want.y), .grads = distance(got.grads, want.grads),
              .dx = distance(got.dx, want.dx), .cpu_ms = 0, .gpu_ms = 0};
  out.cpu_ms = time(*here, want, 3);
  out.gpu_ms = time(*there, got, 15);
  std::printf("%-14s %zu rows: y %.1e, gradients %.1e, dx %.1e from the CPU's; a pass %.3f ms, on the CPU %.3f ms\n",
              out.name, setup.rows, out.y, out.grads, out.dx, out.gpu_ms, out.cpu_ms);
  std::fflush(stdout);
  return out;
}

void write_json(const std::string& file, const std::string& device, const std::vector<Outcome>& outcomes) {
  if (file.empty()) return;
  std::ofstream out(file);
  out << "{\"device\": \"" << device << "\", \"networks\": [";
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& o = outcomes[i];
    out << (i != 0 ? ",\n  " : "\n  ") << "{\"name\": \"" << o.name << "\", \"y\": " << o.y << ", \"gradients\": "
        << o.grads << ", \"dx\": " << o.dx << ", \"cpu_ms\": " << o.cpu_ms << ", \"gpu_ms\": " << o.gpu_ms << "}";
  }
  out << "]}\n";
}

int skip(const std::string& why) {
  std::printf("skipped: %s\n", why.c_str());
  return kSkip;
}

int run(const Options& options) {
  if (!std::filesystem::exists(options.plugin)) return skip("the CUDA plug-in was not built: no " + options.plugin);
  const Gpu gpu(*troupe::kernels::cuda::cuda_table_of(options.plugin.c_str()).value());
  int count = 0;
  gpu.check(gpu->device_count(&count), "device_count");
  if (count == 0) return skip("no GPU, or no driver");
  const std::string device = describe_and_open_products(gpu);
  std::printf("%s\n", device.c_str());
  std::vector<Outcome> outcomes;
  bool good = true;
  for (const Setup& setup : setups(options.small)) {
    outcomes.push_back(compare(setup, gpu));
    write_json(options.json, device, outcomes);
    const Outcome& o = outcomes.back();
    if (o.y < kFarthest && std::max(o.grads, o.dx) < kFarthestSlopes) continue;
    std::printf("FAILED: %s: not what the CPU gives\n", o.name);
    good = false;
  }
  return good ? 0 : 1;
}

}  // namespace

int main_with(int count, char** words) {
  Options options;
  options.plugin = (std::filesystem::canonical("/proc/self/exe").parent_path() / "libtroupe_cuda.so").string();
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--small") options.small = true;
    else if (word == "--plugin" && i + 1 < count) options.plugin = words[++i];
    else if (word == "--json" && i + 1 < count) options.json = words[++i];
    else {
      std::fprintf(stderr, "gpu_rl: what is %s?\nusage: gpu_rl [--plugin FILE] [--small] [--json FILE]\n",
                   word.c_str());
      return 2;
    }
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
  }
}

}  // namespace gpu_test

int main(int count, char** words) { return gpu_test::main_with(count, words); }
