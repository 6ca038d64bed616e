#include "objectstore/client/writable_space.h"

#include <algorithm>
#include <iterator>

#include "objectstore/arena/layout.h"

namespace troupe::store {

Result<std::unique_ptr<WritableSpace>> WritableSpace::create(UniqueFd arena_write, std::uint64_t capacity) {
  auto space = Mapping::address_space(capacity);
  if (!space.ok()) return space.error_ptr();
  return std::unique_ptr<WritableSpace>(new WritableSpace(std::move(arena_write), std::move(*space)));
}

Status WritableSpace::ensure(Range range) {
  std::uint64_t begin = range.offset / kPageBytes * kPageBytes;
  std::uint64_t end = std::min((range.end() + kPageBytes - 1) / kPageBytes * kPageBytes, space_.size());
  if (range.end() > space_.size() || begin >= end) return InvalidArgumentError("a leased range lies outside the arena");
  std::lock_guard lock(mutex_);
  auto at = mapped_.upper_bound(begin);
  if (at != mapped_.begin() && std::prev(at)->second >= begin) at = std::prev(at);
  std::uint64_t joined_begin = begin, joined_end = end, done = begin;
  while (at != mapped_.end() && at->first <= end) {
    if (at->first > done) {
      if (Status status = space_.map_over(fd_, done, at->first - done); !status.ok()) return status;
    }
    done = std::max(done, at->second);
    joined_begin = std::min(joined_begin, at->first);
    joined_end = std::max(joined_end, at->second);
    at = mapped_.erase(at);
  }
  if (done < end) {
    if (Status status = space_.map_over(fd_, done, end - done); !status.ok()) {
      if (done > joined_begin) mapped_[joined_begin] = done;
      return status;
    }
  }
  mapped_[joined_begin] = joined_end;
  return {};
}

void WritableSpace::after_fork_in_child(bool writable) noexcept {
  for (auto [begin, end] : mapped_) space_.make_private(fd_, begin, end - begin, writable);
  mutex_.unlock();
}

}  // namespace troupe::store
