// Tasks, a thousand at a time: submit them all, then get all results.
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

std::string ok() { return "ok"; }

void measure(Harness& harness) {
  harness.report_rate("task/async", harness.rate([] {
    std::vector<ObjectRef<std::string>> refs;
    refs.reserve(1000);
    for (int i = 0; i < 1000; ++i) refs.push_back(task<&ok>.remote());
    get(refs);
  }, 1000));
}

}  // namespace

const Program program{.rows = {"task/async"}, .measure = &measure};

}  // namespace troupe::bench
