// An object that holds ten thousand refs, got again and again.
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

std::vector<ObjectRef<int>> make_refs() {
  std::vector<ObjectRef<int>> refs;
  refs.reserve(10'000);
  for (int i = 0; i < 10'000; ++i) refs.push_back(put(i));
  return refs;
}

void measure(Harness& harness) {
  const auto ref = task<&make_refs>.remote();  // the refs are those of another process, as in the peers' row
  if (get(ref).size() != 10'000) throw Error("refs are missing");
  const Rate rate = harness.rate([&] { get(ref); });
  harness.report({.row = "refs/10k_in_object_ms", .value = 1e3 / rate.mean, .spread = 1e3 / rate.mean * rate.deviation / rate.mean});
}

}  // namespace

const Program program{.rows = {"refs/10k_in_object_ms"}, .measure = &measure};

}  // namespace troupe::bench
