// Ray's own rows from its C++ API, counted as ours: prints one JSON object a line.
//
// Built twice, as its API wants it: as the library that its workers load, and as the driver. Asynchronous tasks go 100
// at a time: 500 at a time never end.
#include <ray/api.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <regex>
#include <string>
#include <vector>

std::string ok() { return "ok"; }
RAY_REMOTE(ok);

class Echo {
 public:
  std::string ok() { return "ok"; }
  static Echo* create() { return new Echo; }
};
RAY_REMOTE(Echo::create, &Echo::ok);

#ifdef DRIVER
namespace {

double scale = 1;
std::string only;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double rate(const std::function<void()>& step, double multiplier = 1) {
  std::size_t calls = 0;
  for (const auto start = std::chrono::steady_clock::now(); seconds_since(start) < scale; ++calls) step();
  const std::size_t stride = calls / 10 + 1;
  double sum = 0;
  for (int trial = 0; trial < 4; ++trial) {
    std::size_t done = 0;
    double elapsed = 0;
    for (const auto start = std::chrono::steady_clock::now(); (elapsed = seconds_since(start)) < 2 * scale;
         done += stride)
      for (std::size_t i = 0; i < stride; ++i) step();
    sum += multiplier * double(done) / elapsed;
  }
  return sum / 4;
}

void report(const std::string& row, const std::function<double()>& measure) {
  if (!std::regex_search(row, std::regex(only))) return;
  const double value = measure();
  std::printf("{\"row\": \"%s\", \"value\": %.10g}\n", row.c_str(), value);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::string library;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--quick") scale = 0.1;
    else if (argument == "--only" && i + 1 < argc) only = argv[++i];
    else library = argument;
  }
  ray::RayConfig config;
  config.code_search_path = {library};
  ray::Init(config);
  auto echo = ray::Actor(Echo::create).Remote();
  ray::Get(echo.Task(&Echo::ok).Remote());
  const auto zero = ray::Put(0);
  report("task/sync", [&] { return rate([] { ray::Get(ray::Task(ok).Remote()); }); });
  report("task/async", [&] {
    return rate([] {
      std::vector<ray::ObjectRef<std::string>> refs;
      for (int i = 0; i < 100; ++i) refs.push_back(ray::Task(ok).Remote());
      ray::Get(refs);
    }, 100);
  });
  report("actor/sync_spin_us", [&] { return 1e6 / rate([&] { ray::Get(echo.Task(&Echo::ok).Remote()); }); });
  report("actor/async", [&] {
    return rate([&] {
      std::vector<ray::ObjectRef<std::string>> refs;
      for (int i = 0; i < 1000; ++i) refs.push_back(echo.Task(&Echo::ok).Remote());
      ray::Get(refs);
    }, 1000);
  });
  report("put/small", [&] { return rate([] { ray::Put(0); }); });
  report("get/ready_local", [&] { return rate([&] { ray::Get(zero); }); });
  report("put/large_gb_s", [&] {
    const std::vector<std::int64_t> values(std::size_t{128} << 17, 7);
    return rate([&] { ray::Put(values); }, double(values.size() * 8) / 1e9);
  });
  ray::Shutdown();
  return 0;
}
#endif
