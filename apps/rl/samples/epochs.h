// The order in which a data set is learned from: all rows in a shuffled order, then all again in another one, without
// end. Which rows come next depends on how many came before, and on nothing else.
//
// Pure; any thread.
//
// EPO-1  Every row comes once in each epoch.
// EPO-2  Rows [first, first + count) are the same however they are cut: a run that was stopped goes on with the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rl {

class Epochs {
 public:
  /// `rows`: at least 1, less than 2^32.
  Epochs(std::uint64_t seed, std::size_t rows) : seed_(seed), rows_(rows) {}

  [[nodiscard]] std::vector<std::uint32_t> take(std::uint64_t first, std::size_t count);

 private:
  void shuffle(std::uint64_t epoch);

  std::uint64_t seed_;
  std::size_t rows_;
  std::uint64_t epoch_ = 0;
  std::vector<std::uint32_t> order_;  // of epoch_; empty: of none yet
};

}  // namespace rl
