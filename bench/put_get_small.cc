// Small objects: a number, which lives with its owner, and 1 KiB arrays in the store, made here and read by another
// process.
//
//   put/small, get/ready_local       a number; the get repeats one ref whose value is there (get/first_small:
//                                    get_first.cc)
//   put/store_1KiB_filled            all bytes written, and 10,000 objects held: each put takes memory that was not
//                                    used just before. A step gives the oldest hundred back and puts a hundred
//   put/store_1KiB_reused            one byte written, given back at once: the same slot again
//   get/store_1KiB_other_process     20,000 refs in another process, each got once
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

Array<char> kilobyte() {
  ArrayBuilder<char> builder(1024);
  builder.span()[0] = 1;
  return std::move(builder).seal();
}

Array<char> filled_kilobyte(char value) {
  ArrayBuilder<char> builder(1024);
  for (char& each : builder.span()) each = value;
  return std::move(builder).seal();
}

void put_filled(Harness& harness) {
  constexpr std::size_t kHeld = 10'000, kStep = 100;
  std::vector<ObjectRef<Array<char>>> held;
  for (std::size_t i = 0; i < kHeld; ++i) held.push_back(put(filled_kilobyte(char(i))));
  std::size_t next = 0;
  harness.report_rate("put/store_1KiB_filled", harness.rate([&] {
    for (std::size_t i = 0; i < kStep; ++i, next = (next + 1) % kHeld) held[next] = put(filled_kilobyte(char(next)));
  }, kStep));
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
  if (harness.wants("get/ready_local")) {
    const ObjectRef<int> ref = put(0);
    harness.report_rate("get/ready_local", harness.rate([&] { for (int i = 0; i < 100; ++i) get(ref); }, 100));
  }
  if (harness.wants("put/store_1KiB_filled")) put_filled(harness);
  if (harness.wants("put/store_1KiB_reused"))
    harness.report_rate("put/store_1KiB_reused",
                        harness.rate([] { for (int i = 0; i < 100; ++i) put(kilobyte()); }, 100));
  if (harness.wants("get/store_1KiB_other_process")) other_process(harness);
}

}  // namespace

const Program program{.rows = {"put/small", "get/ready_local", "put/store_1KiB_filled", "put/store_1KiB_reused",
                               "get/store_1KiB_other_process"},
                      .measure = &measure};

}  // namespace troupe::bench
