// RunningMoments: count, mean and squared deviations of numbers that come in batches, for each column of its own, and
// what two of them make together (Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for
// computing sample variances").
//
// A plain value; one thread at a time.
//
// Invariants
//   RMO-1  merge is exact up to rounding: moments of parts, merged, are the moments of the whole.
//   RMO-2  The same parts in the same order give the same bits.
//   RMO-3  A batch that holds a number that is not finite changes nothing and is refused.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rl {

class RunningMoments {
 public:
  RunningMoments() = default;
  /// Of `columns` columns: nothing was seen.
  explicit RunningMoments(std::size_t columns) : mean_(columns), m2_(columns) {}
  /// As if `count` numbers of mean 0 and variance 1 had been seen: Gymnasium's and Stable-Baselines3's RunningMeanStd
  /// begin so, with 1e-4.
  static RunningMoments with_prior(std::size_t columns, double count = 1e-4);

  /// `rows`: [n][columns]. False: RMO-3.
  template <class T> bool add(std::span<const T> rows);
  /// As many columns.
  void merge(const RunningMoments& other);

  [[nodiscard]] std::size_t columns() const { return mean_.size(); }
  [[nodiscard]] double count() const { return count_; }
  [[nodiscard]] std::span<const double> mean() const { return mean_; }
  /// Of the population; 0 when nothing was seen.
  [[nodiscard]] double variance(std::size_t column) const { return count_ > 0 ? m2_[column] / count_ : 0; }

  /// Count, means, squared deviations: for checkpoints.
  [[nodiscard]] std::vector<double> save() const;
  /// SerializationError (thrown) for numbers that save never gives.
  [[nodiscard]] static RunningMoments restore(std::span<const double> saved);

  template <class Archive>
  void serialize(Archive& ar) {
    ar(count_, mean_, m2_);
  }
  friend bool operator==(const RunningMoments&, const RunningMoments&) = default;

 private:
  double count_ = 0;
  std::vector<double> mean_, m2_;
};

}  // namespace rl
