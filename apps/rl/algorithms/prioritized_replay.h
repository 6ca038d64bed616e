// Priorities of prioritized experience replay: a sum tree in double, stratified sampling, importance weights.
//
// One thread at a time. The stored experience itself is the caller's, under the same indices.
//
// PR-1  priority = |error| + epsilon; the probability of an index is priority^alpha over the sum of all.
// PR-2  Stratified: draw i of B takes the first index whose running sum is greater than (i + u_i) * total / B.
// PR-3  weight = (N * probability)^-beta, to be divided by the largest of the whole buffer or of the batch.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rl {

struct ReplayOptions {
  std::size_t capacity = 1;
  double alpha = 0.6;
  double epsilon = 1e-6;
};

class PriorityTree {
 public:
  explicit PriorityTree(const ReplayOptions& options);

  void update(std::size_t index, double abs_td_error);
  /// priority() as it was before; what raises it anew is update().
  void restore(std::size_t index, double priority);
  [[nodiscard]] double total() const { return sums_[1]; }
  [[nodiscard]] double priority(std::size_t index) const { return priority_[index]; }
  /// priority^alpha; 0 for an index never written.
  [[nodiscard]] double mass(std::size_t index) const { return sums_[leaves_ + index]; }
  [[nodiscard]] double probability(std::size_t index) const { return mass(index) / total(); }

  /// The smallest mass of the indices written; 0 when there are none.
  [[nodiscard]] double smallest_mass() const;

  /// The first index whose running sum is greater than that mass.
  [[nodiscard]] std::size_t find(double mass) const;
  /// PR-2, one index a draw in [0, 1).
  [[nodiscard]] std::vector<std::size_t> sample(std::span<const double> draws) const;
  /// (N P)^-beta, N the capacity.
  [[nodiscard]] double raw_weight(std::size_t index, double beta) const;
  /// The largest raw weight among the indices written.
  [[nodiscard]] double largest_raw_weight(double beta) const;

 private:
  ReplayOptions options_;
  std::size_t leaves_;            // a power of two
  std::vector<double> sums_;      // a heap: node 1 is the root, leaves from leaves_
  std::vector<double> smallest_;  // likewise; infinite where nothing was written
  std::vector<double> priority_;  // before the exponent
};

}  // namespace rl
