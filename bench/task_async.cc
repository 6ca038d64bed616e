// Tasks, a thousand at a time: submit them all, then get all results.
//
//   task/async          results a second
//   task/async_p99_us   from the submission of one of a thousand to its result in hand, taken in order; p50 beside it
//   task/async_cpu_us   CPU time of all processes of the cluster for one task
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

constexpr std::size_t kBatch = 1000;

std::string ok() { return "ok"; }

void batch() {
  std::vector<ObjectRef<std::string>> refs;
  refs.reserve(kBatch);
  for (std::size_t i = 0; i < kBatch; ++i) refs.push_back(task<&ok>.remote());
  get(refs);
}

void latencies(Harness& harness) {
  Samples samples;
  std::vector<Clock::time_point> sent(kBatch);
  for (int round = harness.choose(100, 10); round > 0; --round) {
    std::vector<ObjectRef<std::string>> refs;
    refs.reserve(kBatch);
    for (std::size_t i = 0; i < kBatch; ++i) {
      sent[i] = Clock::now();
      refs.push_back(task<&ok>.remote());
    }
    for (std::size_t i = 0; i < kBatch; ++i) {
      get(refs[i]);
      samples.add(seconds_since(sent[i]) * 1e6);
    }
  }
  harness.report({.row = "task/async_p50_us", .value = samples.median(), .unit = "us", .better = "lower"});
  harness.report({.row = "task/async_p99_us", .value = samples.quantile(0.99), .unit = "us", .better = "lower"});
}

void measure(Harness& harness) {
  batch();
  if (harness.wants("task/async")) harness.report_rate("task/async", harness.rate(&batch, double(kBatch)));
  if (harness.wants_any({"task/async_p50_us", "task/async_p99_us"})) latencies(harness);
  if (harness.wants("task/async_cpu_us")) {
    const int batches = harness.choose(200, 20);
    const double before = cpu_seconds_of_cluster();
    for (int i = 0; i < batches; ++i) batch();
    harness.report({.row = "task/async_cpu_us",
                    .value = (cpu_seconds_of_cluster() - before) * 1e6 / (batches * double(kBatch)),
                    .unit = "us",
                    .better = "lower"});
  }
}

}  // namespace

const Program program{.rows = {"task/async", "task/async_p50_us", "task/async_p99_us", "task/async_cpu_us"},
                      .measure = &measure};

}  // namespace troupe::bench
