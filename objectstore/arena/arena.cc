#include "objectstore/arena/arena.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "objectstore/arena/layout.h"

namespace troupe::store {
namespace {

constexpr std::uint64_t kStep = 2 << 20;      // a huge page; 0.2 ms to reserve
constexpr std::uint64_t kStepsAtOnce = 16;  // between two looks at `stop`
enum : std::uint8_t { kAbsent = 0, kReserved = 1, kPopulated = 2 };

// fallocate gives small pages unless huge ones are forced, and a page stays what it was born as. So where huge pages
// may be had by advice, memory is reserved by populating it.
bool huge_pages_by_advice() {
  std::string text;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/shmem_enabled"), text);
  return text.find("[advise]") != std::string::npos || text.find("[within_size]") != std::string::npos ||
         text.find("[always]") != std::string::npos;
}

ObjectStoreFullError out_of_memory(Range range, const std::string& why) {
  return ObjectStoreFullError("the machine has no memory for " + std::to_string(range.size) +
                              " more bytes of the object store: " + why);
}

}  // namespace

Status make_pages_of_file(const UniqueFd& file, const Mapping& map, Range range, bool huge) {
  if (huge) return map.populate(range.offset, range.size);
  int result;
  do result = fallocate(file.get(), 0, off_t(range.offset), off_t(range.size));
  while (result != 0 && errno == EINTR);
  if (result != 0) return Error(std::strerror(errno));
  return {};
}

Result<std::unique_ptr<Arena>> Arena::create(ArenaOptions options) {
  std::unique_ptr<Arena> arena(new Arena);
  arena->options_ = std::move(options);
  arena->capacity_ = arena->options_.capacity / kPageBytes * kPageBytes;
  if (arena->capacity_ == 0)
    return InvalidArgumentError("an object store needs a capacity of at least one page (4 KiB)");
  auto fd = make_memfd("troupe-arena", arena->capacity_);
  if (!fd.ok()) return fd.error_ptr();
  arena->fd_ = std::move(*fd);
  auto read_only = reopen_read_only(arena->fd_);
  if (!read_only.ok()) return read_only.error_ptr();
  arena->read_only_fd_ = std::move(*read_only);
  auto map = Mapping::read_write(arena->fd_, arena->capacity_);
  if (!map.ok()) return map.error_ptr();
  arena->map_ = std::move(*map);
  arena->map_.advise_huge(0, arena->capacity_);
  arena->huge_ = huge_pages_by_advice();
  arena->steps_ = std::vector<std::atomic<std::uint8_t>>((arena->capacity_ + kStep - 1) / kStep);
  if (arena->options_.populate) {
    if (Status status = arena->populate({0, arena->capacity_}); !status.ok()) return status.error_ptr();
  }
  return arena;
}

Status Arena::reserve(Range range, const std::atomic<bool>* stop) {
  const std::uint64_t last = (range.end() + kStep - 1) / kStep;
  for (std::uint64_t step = range.offset / kStep; step < last;) {
    if (stop && stop->load(std::memory_order_relaxed)) return {};
    if (steps_[step].load(std::memory_order_acquire) != kAbsent) {
      ++step;
      continue;
    }
    std::uint64_t end = step + 1;
    while (end < std::min(last, step + kStepsAtOnce) && steps_[end].load(std::memory_order_acquire) == kAbsent) ++end;
    const Range absent = bytes_of_steps(step, end);
    if (Status status = check_available(absent); !status.ok()) return status;
    if (Status status = options_.make_pages(fd_, map_, absent, huge_); !status.ok())
      return out_of_memory(absent, status.error().message());
    for (; step < end; ++step) raise(step, huge_ ? kPopulated : kReserved);
  }
  return {};
}

Status Arena::populate(Range range, const std::atomic<bool>* stop) {
  std::uint64_t last = (range.end() + kStep - 1) / kStep;
  for (std::uint64_t step = range.offset / kStep; step < last; ++step) {
    if (stop && stop->load(std::memory_order_relaxed)) return {};
    std::uint8_t state = steps_[step].load(std::memory_order_acquire);
    if (state == kPopulated) continue;
    Range bytes = bytes_of_steps(step, step + 1);
    if (state == kAbsent) {
      if (Status status = check_available(bytes); !status.ok()) return status;
    }
    if (Status status = map_.populate(bytes.offset, bytes.size); !status.ok())
      return out_of_memory(bytes, status.error().message());
    raise(step, kPopulated);
  }
  return {};
}

Status Arena::check_available(Range range) const {
  std::uint64_t available = options_.available();
  if (available >= options_.keep_free && available - options_.keep_free >= range.size) return {};
  return out_of_memory(range, std::to_string(available) + " are available, " + std::to_string(options_.keep_free) +
                                  " of them are kept free");
}

bool Arena::is_reserved(Range range) const {
  std::uint64_t last = (range.end() + kStep - 1) / kStep;
  for (std::uint64_t step = range.offset / kStep; step < last; ++step) {
    if (steps_[step].load(std::memory_order_acquire) == kAbsent) return false;
  }
  return true;
}

std::optional<Range> Arena::first_unpopulated(Range range) const {
  std::uint64_t step = range.offset / kStep, last = (range.end() + kStep - 1) / kStep;
  while (step < last && steps_[step].load(std::memory_order_acquire) == kPopulated) ++step;
  if (step == last) return std::nullopt;
  std::uint64_t end = step + 1;
  while (end < last && steps_[end].load(std::memory_order_acquire) != kPopulated) ++end;
  return bytes_of_steps(step, end);
}

Range Arena::bytes_of_steps(std::uint64_t first, std::uint64_t last) const {
  return {first * kStep, std::min(last * kStep, capacity_) - first * kStep};
}

// reserve and populate may meet on one step: whoever finds it absent counts it.
void Arena::raise(std::uint64_t step, std::uint8_t to) {
  std::uint8_t before = steps_[step].load(std::memory_order_relaxed);
  while (before < to && !steps_[step].compare_exchange_weak(before, to, std::memory_order_acq_rel)) {}
  if (before == kAbsent) reserved_bytes_.fetch_add(bytes_of_steps(step, step + 1).size, std::memory_order_relaxed);
}

}  // namespace troupe::store
