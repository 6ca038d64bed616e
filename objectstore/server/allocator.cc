#include "objectstore/server/allocator.h"

#include <algorithm>
#include <iterator>

#include "objectstore/arena/layout.h"

namespace troupe::store {
namespace {
constexpr int kRecentTried = 16;  // beyond the latest few, the best fit is better than the warmest

std::uint64_t to_pages(std::uint64_t size) {
  return std::max(kPageBytes, (size + kPageBytes - 1) / kPageBytes * kPageBytes);
}
}  // namespace

Allocator::Allocator(std::uint64_t capacity) : capacity_(capacity / kPageBytes * kPageBytes), high_(capacity_) {}

std::optional<Range> Allocator::allocate(std::uint64_t size, Kind kind) {
  if (size > capacity_) return std::nullopt;
  size = to_pages(size);
  Zone& own = kind == Kind::kLarge ? low_zone_ : high_zone_;
  Zone& other = kind == Kind::kLarge ? high_zone_ : low_zone_;
  std::optional<Range> r = from_warm(own, size);
  if (!r) r = from_fresh(size, kind);
  if (!r) r = from_warm(other, size);
  if (!r) {  // AL-5: a stretch may begin in one zone and end in the other
    retreat_low();
    retreat_high();
    r = from_fresh(size, kind);
  }
  if (r) used_ += r->size;
  return r;
}

void Allocator::free(Range r) {
  r.size = to_pages(r.size);
  used_ -= r.size;
  Zone& zone = zone_of(r.offset);
  std::uint64_t hot = r.offset;
  auto next = zone.extents.lower_bound(r.offset);
  if (next != zone.extents.end() && next->first == r.end()) {
    r.size += next->second.size;
    auto after = std::next(next);
    erase(zone, next);
    next = after;
  }
  if (next != zone.extents.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second.size == r.offset) {
      r = {previous->first, previous->second.size + r.size};
      erase(zone, previous);
    }
  }
  insert(zone, r, hot, zone.recent.begin());
}

std::optional<Range> Allocator::from_warm(Zone& zone, std::uint64_t size) {
  int tried = 0;
  for (std::uint64_t offset : zone.recent) {
    auto at = zone.extents.find(offset);
    if (at->second.size >= size) return carve(zone, at, size);
    if (++tried == kRecentTried) break;
  }
  auto best = zone.by_size.lower_bound({size, 0});
  if (best == zone.by_size.end()) return std::nullopt;
  return carve(zone, zone.extents.find(best->second), size);
}

// A free range beside the frontier was too short alone: together with fresh memory it may do, and part of it is warm.
std::optional<Range> Allocator::from_fresh(std::uint64_t size, Kind kind) {
  kind == Kind::kLarge ? retreat_low() : retreat_high();
  if (high_ - low_ < size) return std::nullopt;
  if (kind == Kind::kLarge) {
    low_ += size;
    return Range{low_ - size, size};
  }
  high_ -= size;
  return Range{high_, size};
}

Range Allocator::carve(Zone& zone, ExtentIterator at, std::uint64_t size) {
  Range extent{at->first, at->second.size};
  std::uint64_t start = std::min(at->second.hot, extent.end() - size);  // AL-3
  auto after = std::next(at->second.recency);
  erase(zone, at);
  if (start > extent.offset) insert(zone, {extent.offset, start - extent.offset}, extent.offset, after);
  if (start + size < extent.end()) insert(zone, {start + size, extent.end() - start - size}, start + size, after);
  return {start, size};
}

void Allocator::insert(Zone& zone, Range r, std::uint64_t hot, std::list<std::uint64_t>::const_iterator before) {
  auto recency = zone.recent.insert(before, r.offset);
  zone.extents[r.offset] = {r.size, hot, recency};
  zone.by_size.insert({r.size, r.offset});
}

void Allocator::erase(Zone& zone, ExtentIterator at) {
  zone.recent.erase(at->second.recency);
  zone.by_size.erase({at->second.size, at->first});
  zone.extents.erase(at);
}

void Allocator::retreat_low() {
  if (low_zone_.extents.empty()) return;
  auto last = std::prev(low_zone_.extents.end());
  if (last->first + last->second.size != low_) return;
  low_ = last->first;
  erase(low_zone_, last);
}

void Allocator::retreat_high() {
  if (high_zone_.extents.empty()) return;
  auto first = high_zone_.extents.begin();
  if (first->first != high_) return;
  high_ += first->second.size;
  erase(high_zone_, first);
}

}  // namespace troupe::store
