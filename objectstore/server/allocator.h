// Allocator: which bytes of an arena are in use. Pure: knows offsets only, touches no memory.
//
// Assumptions: memory that was used lately is warm (its pages exist, page tables and caches know it), memory that never
// was is very slow at first touch. So freed ranges are reused last in, first out, and fresh memory is taken only when
// nothing warm fits. Small requests (chunks) grow from the top of the arena, large ones from the bottom, so that a
// chunk does not split the range that the next large buffer would reuse. When its own zone and the fresh part have no
// room, a request takes from the other zone.
//
//     0           low                      high           capacity
//     | low zone   | never handed out (fresh) |  high zone  |
//
// Invariants (all sizes are rounded up to pages)
//   AL-1  Ranges that are handed out never overlap and lie within the capacity.
//   AL-2  Neighbouring free ranges are one range: after everything was freed, a request of the whole capacity succeeds.
//   AL-3  free(r) followed by allocate of the same size and kind gives r.
//   AL-4  used() is the sum of the sizes handed out, rounded.
//   AL-5  A request fails only when no free stretch, warm and fresh parts joined, is long enough.
//
// Thread rule: none of its own; one thread at a time.
#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "objectstore/arena/buffer_id.h"

namespace troupe::store {

class Allocator {
 public:
  enum class Kind { kLarge, kSmall };

  /// capacity is rounded down to pages.
  explicit Allocator(std::uint64_t capacity);

  /// The range (its size rounded up to pages, at least one), or nothing when no free range is long enough.
  std::optional<Range> allocate(std::uint64_t size, Kind kind);
  /// r must be a range that allocate returned and that is not free.
  void free(Range r);

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t used() const { return used_; }
  /// Fresh memory: populating ahead begins at its lower end, where the next large buffer will lie.
  Range fresh() const { return {low_, high_ - low_}; }
  std::size_t free_ranges() const { return low_zone_.extents.size() + high_zone_.extents.size(); }

 private:
  struct Extent {
    std::uint64_t size = 0;
    std::uint64_t hot = 0;  ///< where the piece freed last begins
    std::list<std::uint64_t>::iterator recency;
  };
  struct Zone {
    std::map<std::uint64_t, Extent> extents;                    ///< by offset
    std::list<std::uint64_t> recent;                            ///< their offsets, freed last first
    std::set<std::pair<std::uint64_t, std::uint64_t>> by_size;  ///< {size, offset}
  };
  using ExtentIterator = std::map<std::uint64_t, Extent>::iterator;

  Zone& zone_of(std::uint64_t offset) { return offset < low_ ? low_zone_ : high_zone_; }
  std::optional<Range> from_warm(Zone& zone, std::uint64_t size);
  std::optional<Range> from_fresh(std::uint64_t size, Kind kind);
  Range carve(Zone& zone, ExtentIterator at, std::uint64_t size);
  void insert(Zone& zone, Range r, std::uint64_t hot, std::list<std::uint64_t>::const_iterator before);
  void erase(Zone& zone, ExtentIterator at);
  void retreat_low();
  void retreat_high();

  std::uint64_t capacity_;
  std::uint64_t low_ = 0;
  std::uint64_t high_;
  std::uint64_t used_ = 0;
  Zone low_zone_, high_zone_;
};

}  // namespace troupe::store
