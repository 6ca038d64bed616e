// Small objects: a number, which lives with its owner, and 1 KiB arrays in the store, made here and read by another process.
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

Array<char> kilobyte() {
  ArrayBuilder<char> builder(1024);
  builder.span()[0] = 1;
  return std::move(builder).seal();
}

class Reader {
 public:
  /// Gets each of them once; gives how many a second.
  double read(std::vector<ObjectRef<Array<char>>> refs) {
    std::size_t sum = 0;
    const auto start = Clock::now();
    for (const auto& ref : refs) sum += std::size_t(get(ref)[0]);
    const double seconds = seconds_since(start);
    if (sum != refs.size()) throw Error("wrong bytes");
    return double(refs.size()) / seconds;
  }
};

void other_process(Harness& harness) {
  const auto reader = actor<Reader>.remote();
  Samples trials;
  for (int trial = 0; trial < 5; ++trial) {
    std::vector<ObjectRef<Array<char>>> refs;
    for (int i = harness.choose(20'000, 4'000); i > 0; --i) refs.push_back(put(kilobyte()));
    const double rate = get(reader.call<&Reader::read>(refs));
    if (trial > 0) trials.add(rate);
  }
  harness.report({.row = "get/store_1KiB_other_process", .value = trials.mean(), .spread = trials.deviation()});
}

void measure(Harness& harness) {
  // A small call is shorter than a look at the clock: a step is a hundred of them.
  if (harness.wants("put/small"))
    harness.report_rate("put/small", harness.rate([] { for (int i = 0; i < 100; ++i) put(0); }, 100));
  if (harness.wants("get/small")) {
    const ObjectRef<int> ref = put(0);
    harness.report_rate("get/small", harness.rate([&] { for (int i = 0; i < 100; ++i) get(ref); }, 100));
  }
  if (harness.wants("put/store_1KiB"))
    harness.report_rate("put/store_1KiB", harness.rate([] { for (int i = 0; i < 100; ++i) put(kilobyte()); }, 100));
  if (harness.wants("get/store_1KiB_other_process")) other_process(harness);
}

}  // namespace

const Program program{.rows = {"put/small", "get/small", "put/store_1KiB", "get/store_1KiB_other_process"}, .measure = &measure};

}  // namespace troupe::bench
