// A thousand tasks, then a thousand waits for one of the rest.
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

int nothing() { return 0; }

void measure(Harness& harness) {
  const Rate rate = harness.rate([] {
    std::vector<ObjectRef<int>> refs;
    refs.reserve(1000);
    for (int i = 0; i < 1000; ++i) refs.push_back(task<&nothing>.remote());
    while (!refs.empty()) refs = wait(std::move(refs)).pending;
  });
  const double ms = 1e3 / rate.mean;
  harness.report({.row = "wait/1k_shrinking_ms", .value = ms, .spread = ms * rate.deviation / rate.mean});
}

}  // namespace

const Program program{.rows = {"wait/1k_shrinking_ms"}, .measure = &measure};

}  // namespace troupe::bench
