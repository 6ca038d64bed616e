// Checks every CUDA kernel of the plug-in against the double reference of kernels/ and the recorded cases, and times it
// against ceilings measured in the same run. Plain C++: it needs the plug-in and a driver, no toolkit and no
// GoogleTest.
//
//   gpu_test [--plugin FILE] [--selftest] [--small] [--only TEXT] [--no-times] [--json FILE]
//
// --plugin FILE  libtroupe_cuda.so; by default the one beside this program. --selftest: the small problems, no times.
// TROUPE_CUBLASLT_LIB names cuBLASLt. Exit code: 0 all right, 1 something is wrong, 2 wrong usage, 77 no GPU (a skip).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "kernels/cuda/plugin_file.h"
#include "tests/gpu/operations.h"
#include "tests/gpu/timings.h"
#include "tests/kernels/golden.h"

namespace gpu_test {

std::vector<double> random_values(std::size_t count, unsigned seed, double spread) {
  std::mt19937 random(seed);
  std::vector<double> out(count);
  // Multiples of 2^-20: exact in float, so that both sides start from the same numbers.
  for (double& x : out) x = static_cast<float>(spread * (static_cast<double>(random() >> 8) * 0x1p-23 - 1.0));
  return out;
}
std::vector<double> random_integers(std::size_t count, unsigned seed, int low, int high) {
  std::mt19937 random(seed);
  std::vector<double> out(count);
  for (double& x : out) x = low + static_cast<int>(random() % static_cast<unsigned>(high - low));
  return out;
}

namespace {

namespace cuda = troupe::kernels::cuda;
constexpr int kSkip = 77;

struct Options {
  std::string plugin, only, json;
  bool small = false, times = true;
};

struct Tally {
  int checks = 0;
  std::vector<std::string> failures;
};

// |got - want| / |want|; infinite for another length or a number that is none on one side only.
double distance(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return INFINITY;
  double off = 0, all = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    if (std::isnan(want[i]) || std::isnan(got[i])) return INFINITY;
    off += (got[i] - want[i]) * (got[i] - want[i]);
    all += want[i] * want[i];
  }
  // A result that is zero by right (softmax of one column) may be off by a rounding of numbers around one.
  return off == 0 ? 0 : std::sqrt(off) / std::max(std::sqrt(all), 0.05 * std::sqrt(static_cast<double>(want.size())));
}

void compare(const Operation& op, int version, const Problem& problem, const Arrays& got, const Arrays& want,
             Tally& tally) {
  const double allowed = std::max(op.tolerance, problem.tolerance);
  for (const auto& [name, values] : want) {
    const auto found = got.find(name);
    if (found == got.end()) continue;  // recorded, and not an answer of this operation
    ++tally.checks;
    const double off = distance(found->second, values);
    if (off <= allowed) continue;
    char text[256];
    std::snprintf(text, sizeof(text), "%s v%d, %s, %s: off by %.3g, allowed %.3g", op.name.c_str(), version,
                  problem.name.c_str(), name.c_str(), off, allowed);
    tally.failures.emplace_back(text);
  }
}

void check_golden(const Gpu& gpu, const Operation& op, Tally& tally) {
  if (op.golden.empty()) return;
  for (const golden::Case& c : golden::cases_of(op.golden)) {
    Problem p{.name = c.name(), .sizes = {}, .arrays = {}};
    for (const auto& key : op.keys) p.sizes[key] = c.number(key);
    // Rows far from zero: the recording in float lost digits too.
    if (op.name == "layernorm" && c.number("f32_error_y") > 1e-5) p.tolerance = 1e-3;
    for (const auto& name : op.inputs) p.arrays[name] = c.array(name).values;
    for (const int version : op.versions) {
      const Arrays got = op.solve(gpu, version, p);
      Arrays want;
      for (const auto& [name, values] : got)
        if (c.has(name)) want[name] = c.array(name).values;
      compare(op, version, p, got, want, tally);
    }
  }
}

Tally check_all(const Gpu& gpu, const Options& options) {
  Tally tally;
  std::vector<Operation> all = element_operations();
  for (auto more : {row_operations(), training_operations(), matrix_operations()})
    all.insert(all.end(), more.begin(), more.end());
  for (const Operation& op : all) {
    if (op.name.find(options.only) == std::string::npos) continue;
    const int before = tally.checks;
    const std::size_t failed = tally.failures.size();
    try {
      for (const Problem& problem : op.problems(options.small)) {
        const Arrays want = op.reference(problem);
        for (const int version : op.versions)
          compare(op, version, problem, op.solve(gpu, version, problem), want, tally);
      }
      check_golden(gpu, op, tally);
    } catch (const std::exception& error) {
      tally.failures.push_back(op.name + ": " + error.what());
    }
    std::printf("%-16s %5d checks %s\n", op.name.c_str(), tally.checks - before,
                tally.failures.size() == failed ? "ok" : "FAILED");
    std::fflush(stdout);
  }
  for (const std::string& failure : tally.failures) std::printf("FAILED: %s\n", failure.c_str());
  return tally;
}

void print_times(const Ceilings& ceilings, const std::vector<Timing>& timings) {
  std::printf(
      "\nceilings: copy %.0f GB/s (read plus written), bfloat16 products %.0f GFLOP/s, float products %.0f GFLOP/s\n",
      ceilings.copy_gb_per_second, ceilings.bf16_gflop_per_second, ceilings.float_gflop_per_second);
  std::printf("%-30s %3s %12s %14s %8s\n", "kernel", "v", "us", "rate", "share");
  for (const Timing& t : timings)
    std::printf("%-30s %3d %12.1f %9.1f %s %7.1f%%\n", t.kernel.c_str(), t.version, t.microseconds, t.rate, t.unit,
                100 * t.share);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

void write_json(const std::string& file, const cuda::DeviceFacts& facts, const std::string& cublaslt,
                const Tally& tally, const Ceilings& ceilings, const std::vector<Timing>& timings) {
  if (file.empty()) return;
  std::ofstream out(file);
  out << "{\"device\": " << quoted(facts.name) << ", \"driver\": " << facts.driver_version
      << ", \"runtime\": " << facts.runtime_version << ", \"cublaslt\": " << quoted(cublaslt)
      << ", \"checks\": " << tally.checks << ", \"failures\": [";
  for (std::size_t i = 0; i < tally.failures.size(); ++i) out << (i != 0 ? ", " : "") << quoted(tally.failures[i]);
  out << "], \"ceilings\": {\"copy_gb_per_second\": " << ceilings.copy_gb_per_second
      << ", \"bf16_gflop_per_second\": " << ceilings.bf16_gflop_per_second
      << ", \"float_gflop_per_second\": " << ceilings.float_gflop_per_second << "}, \"kernels\": [";
  for (std::size_t i = 0; i < timings.size(); ++i) {
    const Timing& t = timings[i];
    out << (i != 0 ? ",\n  " : "\n  ") << "{\"kernel\": " << quoted(t.kernel) << ", \"version\": " << t.version
        << ", \"us\": " << t.microseconds << ", \"rate\": " << t.rate << ", \"unit\": \"" << t.unit
        << "\", \"share\": " << t.share << "}";
  }
  out << "]}\n";
}

int skip(const std::string& why) {
  std::printf("skipped: %s\n", why.c_str());
  return kSkip;
}

int run(const Options& options) {
  if (!std::filesystem::exists(options.plugin)) return skip("the CUDA plug-in was not built: no " + options.plugin);
  const cuda::Table* table =
      cuda::PluginFile::open(options.plugin).value().table<cuda::Table>(cuda::kTableSymbol, cuda::kPluginAbi).value();
  const Gpu gpu(*table);
  int count = 0;
  gpu.check(gpu->device_count(&count), "device_count");
  if (count == 0) return skip("no GPU, or no driver");
  cuda::DeviceFacts facts{};
  gpu.check(gpu->device_facts(0, &facts), "device_facts");
  gpu.check(gpu->set_device(0), "set_device");
  const auto products = cuda::find_cublaslt(*table);
  const std::string message = products.ok() ? *products : std::string(products.error().message());
  std::printf("%s (%d.%d, %d multiprocessors), driver %d, runtime %d\ncuBLASLt: %s\n", facts.name, facts.major,
              facts.minor, facts.multiprocessors, facts.driver_version, facts.runtime_version, message.c_str());
  const Tally tally = check_all(gpu, options);
  Ceilings ceilings;
  std::vector<Timing> timings;
  if (options.times) {
    ceilings = measure_ceilings(gpu, !options.small);
    timings = time_kernels(gpu, ceilings, !options.small);
    print_times(ceilings, timings);
  }
  write_json(options.json, facts, message, tally, ceilings, timings);
  std::printf("%d checks, %zu failed\n", tally.checks, tally.failures.size());
  return tally.failures.empty() && tally.checks != 0 ? 0 : 1;
}

int usage(const char* what) {
  std::fprintf(
      stderr,
      "gpu_test: %s\nusage: gpu_test [--plugin FILE] [--selftest] [--small] [--only TEXT] [--no-times] [--json FILE]\n",
      what);
  return 2;
}

}  // namespace

int main_with(int count, char** words) {
  Options options;
  options.plugin = (std::filesystem::canonical("/proc/self/exe").parent_path() / "libtroupe_cuda.so").string();
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&](std::string& to) { return i + 1 < count && (to = words[++i], true); };
    if (word == "--small") options.small = true;
    else if (word == "--no-times") options.times = false;
    else if (word == "--selftest") options.small = true, options.times = false;
    else if (!(word == "--plugin" && value(options.plugin)) && !(word == "--only" && value(options.only)) &&
             !(word == "--json" && value(options.json)))
      return usage(("what is " + word + "?").c_str());
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
