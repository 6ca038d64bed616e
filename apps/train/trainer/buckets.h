// Buckets: the cut of the flat gradient into ranges that are reduced one by one, while the backward pass goes on.
//
// The backward pass finishes the gradient from its end to its beginning, so the buckets count from the end: bucket 0
// holds the highest offsets. The first is small, so that the wires have something to do soon.
//
//   flat:   | bucket 3 |     bucket 2      |     bucket 1      | b. 0 |pad|
//                                                    final_from --> falls
//
// Invariants
//   BK-1  Every bucket begins at a multiple of kNormBlock * parts elements and is as many of them as fit its size, at
//         least one: so each part of a bucket holds whole norm blocks (KO-2), and the sum of their squares is the same
//         however it is cut.
//   BK-2  A bucket is released once, in order, when all its elements are final.
//   BK-3  `padded` elements hold all buckets: at most kNormBlock * parts - 1 more than `count`. Padding is zero and
//         stays so.
// Thread rule: pure values.
#pragma once
#include <cstddef>
#include <vector>

namespace troupe::train {

struct BucketOptions {
  std::size_t first_bytes = std::size_t(1) << 20;
  std::size_t bytes = std::size_t(25) << 20;
};

struct FlatRange {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
  friend bool operator==(const FlatRange&, const FlatRange&) = default;
};

struct BucketPlan {
  std::size_t count = 0, padded = 0, parts = 1;
  std::vector<FlatRange> buckets = {};  ///< of padded elements; bucket 0 ends at `padded`
};

/// `parts`: how many equal pieces every bucket must fall into (the ranks of a sharded optimizer, else 1).
BucketPlan cut_buckets(std::size_t count, std::size_t element_bytes, std::size_t parts, const BucketOptions& options);

/// Says which buckets are complete as the backward pass goes on.
class BucketGate {
 public:
  explicit BucketGate(const BucketPlan& plan) : plan_(&plan) {}
  /// No element at or after `offset` changes any more: the numbers [first, last) of the buckets that this completes.
  struct Released {
    std::size_t first, last;
  };
  Released final_from(std::size_t offset);
  bool all_released() const { return next_ == plan_->buckets.size(); }

 private:
  const BucketPlan* plan_;
  std::size_t next_ = 0;
};

}  // namespace troupe::train
