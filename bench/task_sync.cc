// Tasks, one after the other: submit one, get its result.
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

std::string ok() { return "ok"; }

void measure(Harness& harness) {
  harness.report_rate("task/sync", harness.rate([] { get(task<&ok>.remote()); }));
  Samples latency;
  for (int i = harness.choose(20'000, 1'000); i > 0; --i) {
    const auto start = Clock::now();
    get(task<&ok>.remote());
    latency.add(seconds_since(start) * 1e6);
  }
  harness.report({.row = "task/sync_p50_us", .value = latency.median(), .unit = "us", .better = "lower"});
  harness.report({.row = "task/sync_p99_us", .value = latency.quantile(0.99), .unit = "us", .better = "lower"});
}

}  // namespace

const Program program{.rows = {"task/sync", "task/sync_p50_us", "task/sync_p99_us"}, .measure = &measure};

}  // namespace troupe::bench
