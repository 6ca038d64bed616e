// ShardPlan: which elements a rank updates, and where their optimizer moments stand in its memory.
//
// ZeRO-0: every rank updates all elements and keeps all moments. ZeRO-1: every bucket falls into as many equal parts as
// there are ranks; rank r updates part r of each and keeps the moments of those alone, one after the other by rising
// offset ("compact"), so that all ranks hold equally many.
//
//   flat:      | b1.p0 | b1.p1 | b0.p0 | b0.p1 |        two ranks, two buckets
//   rank 1:            | b1.p1 |       | b0.p1 |   ->   compact | b1.p1 | b0.p1 |
//
// Invariants
//   ZP-1  A part is whole norm blocks (BK-1).
//   ZP-2  The plan is a function of (count, element size, ranks, rank, zero, options): whoever knows these of a lost
//         rank knows what its shard held.
//   ZP-3  Pieces cut a part where tensors meet: all of one piece decays or none, and padding is in none.
// Thread rule: pure values.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/train/trainer/buckets.h"
#include "apps/train/model/model.h"

namespace troupe::train {

enum class Zero : std::uint8_t { k0 = 0, k1 = 1 };

/// Elements that the optimizer treats alike.
struct Piece {
  std::size_t flat = 0, compact = 0, size = 0;
  bool decayed = true;
};

struct ShardSetting {
  std::size_t count = 0, element_bytes = 4;
  int ranks = 1, rank = 0;
  Zero zero = Zero::k0;
  BucketOptions buckets = {};
};

class ShardPlan {
 public:
  ShardPlan() = default;
  explicit ShardPlan(const ShardSetting& setting);

  const ShardSetting& setting() const { return setting_; }
  const BucketPlan& buckets() const { return buckets_; }
  /// What this rank updates of bucket b; ZeRO-0: all of it.
  FlatRange part(std::size_t bucket) const { return part(bucket, setting_.rank); }
  FlatRange part(std::size_t bucket, int rank) const;
  /// How many elements of moments a rank keeps.
  std::size_t shard_size() const { return sharded() ? buckets_.padded / std::size_t(setting_.ranks) : buckets_.padded; }
  bool sharded() const { return setting_.zero == Zero::k1; }
  /// Where the parts of bucket b begin in the compact order; the same for all ranks.
  std::size_t compact_begin(std::size_t bucket) const {
    return sharded() ? buckets_.buckets[bucket].begin / std::size_t(setting_.ranks) : buckets_.buckets[bucket].begin;
  }

  /// The pieces of the own part of a bucket.
  std::vector<Piece> pieces(std::size_t bucket, const Layout& layout) const;

  /// Calls copy(from, to, size) for every run of elements that `values`, the flat range from `begin` on, shares with
  /// the own shard: from is an offset in values, to one in the compact order.
  template <class Copy>
  void each_shared(FlatRange values, Copy&& copy) const {
    for (std::size_t b = 0; b < buckets_.buckets.size(); ++b) {
      const FlatRange own = part(b);
      const std::size_t begin = own.begin > values.begin ? own.begin : values.begin,
                        end = own.end < values.end ? own.end : values.end;
      if (begin < end) copy(begin - values.begin, compact_begin(b) + (begin - own.begin), end - begin);
    }
  }

 private:
  ShardSetting setting_{};
  BucketPlan buckets_{};
};

}  // namespace troupe::train
