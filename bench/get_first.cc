// First reads of what another process made and owns, each object once: what a consumer of results sees.
// (get/ready_local and get/large_again_us repeat one ref whose value is there.)
//
//   get/first_small              20,000 numbers that an actor put: how many a second the driver gets, the refs in hand
//   get/first_large_us           1 GiB of float that an actor filled and put: the first get
//   get/large_sum_over_mapping   that get and the sum of all bytes, over mapping a filled memfd anew and summing it:
//                                how many times as long. Both see their pages for the first time. The sum alone of own
//                                memory, warm, stands beside it (get/large_sum_own_ms).
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

class Maker {
 public:
  std::vector<ObjectRef<int>> numbers(int count) {
    std::vector<ObjectRef<int>> refs;
    refs.reserve(std::size_t(count));
    for (int i = 0; i < count; ++i) refs.push_back(put(i));
    return refs;
  }
  std::vector<ObjectRef<Array<float>>> large(std::size_t count) {
    ArrayBuilder<float> builder(count);
    for (float& value : builder.span()) value = 1;
    return {put(std::move(builder).seal())};
  }
};

double sum_of(const float* data, std::size_t count) {
  // Whole words, as a checksum would: memory decides, not arithmetic.
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 1 < count; i += 2) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + i, sizeof(word));
    sum += word;
  }
  return double(sum);
}

void first_small(Harness& harness, const ActorHandle<Maker>& maker) {
  Samples trials;
  const int count = harness.choose(20'000, 4'000);
  for (int trial = 0; trial < 6; ++trial) {
    const auto refs = get(maker.call<&Maker::numbers>(count));
    std::int64_t sum = 0;
    const auto start = Clock::now();
    for (const auto& ref : refs) sum += get(ref);
    const double seconds = seconds_since(start);
    if (sum != std::int64_t(count) * (count - 1) / 2) throw Error("wrong numbers");
    if (trial > 0) trials.add(count / seconds);
  }
  harness.report({.row = "get/first_small", .value = trials.median(), .spread = trials.deviation()});
}

/// Seconds of the sum over a fresh mapping of a filled memfd.
double mapped_seconds(int fd, std::size_t count, double& sum) {
  const auto start = Clock::now();
  void* data = ::mmap(nullptr, count * sizeof(float), PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) throw Error("no memory for the floor");
  sum = sum_of(static_cast<const float*>(data), count);
  const double seconds = seconds_since(start);
  ::munmap(data, count * sizeof(float));
  return seconds;
}

int filled_file(std::size_t count) {
  const int fd = ::memfd_create("bench-floor", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, off_t(count * sizeof(float))) != 0) throw Error("no memory for the floor");
  void* data = ::mmap(nullptr, count * sizeof(float), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) throw Error("no memory for the floor");
  std::fill_n(static_cast<float*>(data), count, 1.0f);
  ::munmap(data, count * sizeof(float));
  return fd;
}

void first_large(Harness& harness, const ActorHandle<Maker>& maker) {
  const std::size_t count = harness.choose<std::size_t>(1024, 64) << 18;
  const int fd = filled_file(count);
  Samples gets, reads, mapped, own;
  double want = 0, sum = 0;
  for (int trial = 0; trial < harness.choose(5, 3); ++trial) {
    mapped.add(mapped_seconds(fd, count, want));
    auto refs = get(maker.call<&Maker::large>(count));
    const auto start = Clock::now();
    const Array<float> view = get(refs.front());
    gets.add(seconds_since(start) * 1e6);
    sum = sum_of(view.data(), view.size());
    reads.add(seconds_since(start));
    if (sum != want) throw Error("wrong bytes");
  }
  ::close(fd);
  {
    const std::vector<float> memory(count, 1.0f);
    for (int i = 0; i < 3; ++i) {
      const auto start = Clock::now();
      if (sum_of(memory.data(), count) != want) throw Error("wrong bytes");
      own.add(seconds_since(start) * 1e3);
    }
  }
  harness.report({.row = "get/first_large_us", .value = gets.median(), .spread = gets.deviation()});
  harness.report({.row = "get/large_sum_over_mapping", .value = reads.median() / mapped.median(), .floor = 1.0});
  harness.report({.row = "get/large_sum_own_ms", .value = own.quantile(0), .unit = "ms", .better = "lower"});
}

void measure(Harness& harness) {
  const auto maker = actor<Maker>.remote();
  if (harness.wants("get/first_small")) first_small(harness, maker);
  if (harness.wants("get/first_large_us") || harness.wants("get/large_sum_over_mapping") ||
      harness.wants("get/large_sum_own_ms"))
    first_large(harness, maker);
}

}  // namespace

const Program program{.rows = {"get/first_small", "get/first_large_us", "get/large_sum_over_mapping",
                               "get/large_sum_own_ms"},
                      .measure = &measure,
                      .object_store_memory = std::uint64_t{2560} << 20};

}  // namespace troupe::bench
