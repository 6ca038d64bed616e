// Large objects: 800 MiB from the user's memory into the store, against glibc's memcpy into warm pages of shared
// memory, measured in turns; and the reading of an array of 1 GiB by another process, which copies nothing.
//
//   put/large_over_memcpy   our put may use a second thread, memcpy has one: what a caller gets instead of memcpy
//   get/large_again_us      repeats of one ref after the first get (first gets: get_first.cc)
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

/// Shared memory whose pages are there already.
class WarmMemory {
 public:
  explicit WarmMemory(std::size_t size) : size_(size) {
    const int fd = ::memfd_create("bench-floor", MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, off_t(size)) != 0) throw Error("no memory for the floor");
    data_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    ::close(fd);
    if (data_ == MAP_FAILED) throw Error("no memory for the floor");
    std::memset(data_, 1, size);
  }
  ~WarmMemory() { ::munmap(data_, size_); }
  WarmMemory(const WarmMemory&) = delete;
  WarmMemory& operator=(const WarmMemory&) = delete;
  void* data() const { return data_; }

 private:
  std::size_t size_;
  void* data_;
};

void put_large(Harness& harness) {
  const std::size_t count = (harness.choose<std::size_t>(800, 200) << 20) / sizeof(std::int64_t);
  const double gigabytes = double(count) * sizeof(std::int64_t) / 1e9;
  const std::vector<std::int64_t> values(count, 7);
  const WarmMemory warm(count * sizeof(std::int64_t));
  Samples floors, puts;
  for (int i = 0; i < harness.choose(10, 5); ++i) {
    auto start = Clock::now();
    std::memcpy(warm.data(), values.data(), count * sizeof(std::int64_t));
    const double copied = seconds_since(start);
    start = Clock::now();
    auto ref = put(values);
    const double put_seconds = seconds_since(start);
    ref = {};
    if (i < 2) continue;  // the store's pages are touched for the first time
    floors.add(gigabytes / copied);
    puts.add(gigabytes / put_seconds);
  }
  harness.report({.row = "put/large_over_memcpy",
                  .value = puts.median() / floors.median(),
                  .spread = puts.deviation() / floors.median(),
                  .floor = 1.0});
  harness.report({.row = "put/large_gb_s",
                  .value = puts.median(),
                  .spread = puts.deviation(),
                  .floor = floors.median(),
                  .unit = "GB/s",
                  .better = "higher"});
}

class Reader {
 public:
  /// Microseconds of a get; the first one does not count.
  double read(ObjectRef<Array<float>> ref, int times) {
    Samples samples;
    for (int i = 0; i < times; ++i) {
      const auto start = Clock::now();
      const Array<float> view = get(ref);
      const double us = seconds_since(start) * 1e6;
      if (view.size() == 0) throw Error("an empty array");
      if (i > 0) samples.add(us);
    }
    return samples.median();
  }
};

void get_large(Harness& harness) {
  ArrayBuilder<float> builder(harness.choose<std::size_t>(1024, 64) << 18);
  builder.span()[0] = 1;
  const auto ref = put(std::move(builder).seal());
  const auto reader = actor<Reader>.remote();
  const double median = get(reader.call<&Reader::read>(ref, 1000));
  harness.report({.row = "get/large_again_us", .value = median});
}

void measure(Harness& harness) {
  if (harness.wants("get/large_again_us")) get_large(harness);
  if (harness.wants("put/large_over_memcpy") || harness.wants("put/large_gb_s")) put_large(harness);
}

}  // namespace

const Program program{.rows = {"put/large_over_memcpy", "put/large_gb_s", "get/large_again_us"},
                      .measure = &measure,
                      .object_store_memory = std::uint64_t{2560} << 20};

}  // namespace troupe::bench
