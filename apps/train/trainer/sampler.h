// Sampler: which rows of the data set make up the global batch of a step, and which part of it a rank takes.
//
// A sampler is a function of its options and the step: there is nothing to save but the step, and a resumed run, or one
// with another number of ranks, sees the same rows in the same order.
//
// Invariants
//   SA-1  The global batch of a step is the same for any number of ranks; the ranks' parts are its pieces in rank
//         order.
//   SA-2  Parts differ by one row at most, and no row is padded, dropped or repeated.
//   SA-3  kShuffled: steps run through one endless row of epochs; each epoch is a permutation of all rows of its own. A
//         batch may end one epoch and begin the next.
// Thread rule: one thread an object (an epoch's order is cached); copies are independent.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <troupe/result.h>

namespace troupe::train {

struct Part {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};
/// The part of `count` things that belongs to `rank` of `ranks` (SA-2).
Part part_of(std::size_t count, int rank, int ranks);

/// Random words as a function of (seed, stream, counter): SplitMix64's finalizer over them. Any word can be had in any
/// order.
std::uint64_t random_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter);
/// The same, below `bound` (at least 1), without modulo bias worth speaking of (2^-64 of the bound).
std::uint64_t random_below(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter, std::uint64_t bound);

/// kShuffled: epochs, each in an order of its own. kUniform: every row drawn by itself, with replacement (windows of a
/// text). kListed: the given rows, batch after batch, from the start again at the end (recorded runs).
enum class Sampling : std::uint8_t { kShuffled, kUniform, kListed };

struct SamplerOptions {
  Sampling sampling = Sampling::kShuffled;
  std::size_t rows = 0;   ///< of the data set
  std::size_t batch = 0;  ///< the global one
  std::uint64_t seed = 0;
  std::vector<std::uint64_t> listed = {};  ///< kListed: each below `rows`
};

class Sampler {
 public:
  /// InvalidArgumentError for an empty data set or batch, or a listed row that is not there.
  static Result<Sampler> create(SamplerOptions options);

  std::size_t batch() const { return options_.batch; }
  const SamplerOptions& options() const { return options_; }
  /// The rows at `part` of the global batch of `step`.
  void rows(std::int64_t step, Part part, std::vector<std::uint64_t>& out);
  /// How many epochs lie behind a run that has done `step` steps.
  double epochs(std::int64_t step) const;
  /// One line that differs when the choice of rows does: checkpoints carry it.
  std::string describe() const;

 private:
  explicit Sampler(SamplerOptions options) : options_(std::move(options)) {}
  std::span<const std::uint64_t> epoch_order(std::uint64_t epoch);

  SamplerOptions options_;
  std::uint64_t cached_epoch_ = ~std::uint64_t(0);
  std::vector<std::uint64_t> order_;
};

}  // namespace troupe::train
