// An object that holds ten thousand refs, which another process made and owns.
//
//   refs/10k_new_object_ms    a new object each time: task, result and get; the refs of the last one are given back
//                             before. What making the refs takes there is measured by the task itself and not counted
//   refs/10k_same_object_ms   one object, got again and again: its refs are known here after the first time
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

constexpr int kRefs = 10'000;

class Maker {
 public:
  std::vector<ObjectRef<int>> refs() {
    const auto start = Clock::now();
    std::vector<ObjectRef<int>> made;
    made.reserve(kRefs);
    for (int i = 0; i < kRefs; ++i) made.push_back(put(i));
    making_ms_ = seconds_since(start) * 1e3;
    return made;
  }
  double making_ms() { return making_ms_; }

 private:
  double making_ms_ = 0;
};

void measure(Harness& harness) {
  const auto maker = actor<Maker>.remote();
  get(maker.call<&Maker::making_ms>());
  if (harness.wants("refs/10k_new_object_ms") || harness.wants("refs/10k_new_object_with_making_ms")) {
    Samples all, without;
    for (int i = harness.choose(30, 5); i >= 0; --i) {
      const auto start = Clock::now();
      const auto refs = get(maker.call<&Maker::refs>());
      const double ms = seconds_since(start) * 1e3;
      if (refs.size() != kRefs) throw Error("refs are missing");
      const double making = get(maker.call<&Maker::making_ms>());
      all.add(ms);
      without.add(ms - making);
    }
    harness.report({.row = "refs/10k_new_object_ms", .value = without.median(), .spread = without.deviation()});
    harness.report({.row = "refs/10k_new_object_with_making_ms",
                    .value = all.median(),
                    .spread = all.deviation(),
                    .unit = "ms",
                    .better = "lower"});
  }
  if (harness.wants("refs/10k_same_object_ms")) {
    const auto ref = maker.call<&Maker::refs>();
    if (get(ref).size() != kRefs) throw Error("refs are missing");
    const Rate rate = harness.rate([&] { get(ref); });
    const double ms = 1e3 / rate.mean;
    harness.report({.row = "refs/10k_same_object_ms", .value = ms, .spread = ms * rate.deviation / rate.mean});
  }
}

}  // namespace

const Program program{.rows = {"refs/10k_new_object_ms", "refs/10k_new_object_with_making_ms",
                               "refs/10k_same_object_ms"},
                      .measure = &measure};

}  // namespace troupe::bench
