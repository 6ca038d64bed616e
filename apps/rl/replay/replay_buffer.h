// ReplayBuffer: the last rows of any columns, from which batches are drawn, each row as likely as any other or by
// priorities (Schaul et al., 2016).
//
//   add(samples)  ──▶ ring of `capacity` rows ──▶ sample(batch) ──▶ learner
//                          ▲                                          │ index, generation, |error|
//                          └──────── update_priorities ◀──────────────┘
//
// Several buffers (shards) make one replay: allot_draws says how many rows each of them gives to a batch, and
// ReplayDraw::all makes the weights those of the whole.
//
// A plain class: no threads, no runtime. One thread at a time. What is drawn comes from the caller's generator.
//
// Invariants
//   RPB-1  A full buffer replaces its oldest row. A new row's priority is the largest error so far, at first 1, so that
//          every row is likely to be seen.
//   RPB-2  With priorities: draw i of B is stratified over this buffer's mass (PR-2), and its weight is
//          (N P)^-beta over the largest of all rows (PR-1, PR-3); N and the sum of all masses cancel, so that this is
//          (mass / smallest mass)^-beta. Without: rows are drawn with replacement, all weights are 1.
//   RPB-3  A row's generation counts how often its place was written. A priority for another generation than the
//          present one is ignored: it belongs to a row that has been replaced.
//   RPB-4  save() and restore() carry rows, generations and priorities bit for bit: the same draws follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/rl/algorithms/prioritized_replay.h"
#include "apps/rl/algorithms/rng.h"
#include "apps/rl/state/state_dict.h"
#include "apps/rl/samples/sample_batch.h"

namespace rl {

struct PriorityOptions {
  double alpha = 0.6;  // 0: all are as likely
  double epsilon = 1e-6;
};

struct ReplayBufferOptions {
  std::vector<Column> columns = {};
  std::size_t capacity = 0;
  std::optional<PriorityOptions> priorities = {};  // none: uniform
};

/// What is known of a buffer, or of several, when rows are drawn. Without priorities every row has mass 1.
struct ReplayMass {
  std::size_t rows = 0;
  double total = 0, smallest = 0;
  friend bool operator==(const ReplayMass&, const ReplayMass&) = default;

  template <class Archive>
  void serialize(Archive& ar) {
    ar(rows, total, smallest);
  }
};
[[nodiscard]] ReplayMass merged(std::span<const ReplayMass> shards);
/// How many of `draws` each shard gives: stratified over the mass of all, one number of the generator a draw.
/// InvalidArgumentError, thrown, when all are empty.
[[nodiscard]] std::vector<std::size_t> allot_draws(std::span<const ReplayMass> shards, std::size_t draws,
                                                   Generator& generator);

struct ReplayDraw {
  double beta = 0.4;                     // 0: all weights are 1
  std::optional<ReplayMass> all = {};    // of all shards; none: this buffer is the whole replay
};

class ReplayBuffer {
 public:
  /// Throws InvalidArgumentError for a capacity of 0 or above 2^31, a column whose name sample() adds, an alpha below
  /// 0, an epsilon that is not above it.
  explicit ReplayBuffer(const ReplayBufferOptions& options);

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t capacity() const { return options_.capacity; }
  [[nodiscard]] ReplayMass mass() const;

  /// InvalidArgumentError, thrown, for other columns.
  void add(const SampleView& samples);

  /// Of what sample() writes: those of the rows, and "weight" (float32), "index" and "generation" (int64).
  [[nodiscard]] const std::vector<Column>& sample_columns() const { return sample_columns_; }
  /// Draws the rows of a batch of sample_columns(). InvalidArgumentError, thrown, when there are none to draw from.
  void sample(const ReplayDraw& draw, Generator& generator, const SampleLayout& layout, std::byte* memory);
  void sample(const ReplayDraw& draw, Generator& generator, OwnedSamples& out) {
    sample(draw, generator, out.layout(), out.memory());
  }

  /// How many were ignored (RPB-3). InvalidArgumentError, thrown, without priorities, for spans of different sizes, for
  /// a place that was never written, and for an error that is negative or not finite; nothing has changed then.
  std::size_t update_priorities(std::span<const std::int64_t> index, std::span<const std::int64_t> generation,
                                std::span<const float> abs_errors);

  [[nodiscard]] StateDict save() const;
  /// SerializationError when it is the state of another buffer; nothing has changed then.
  void restore(const StateDict& state);

 private:
  void set_up_tree();

  ReplayBufferOptions options_;
  std::vector<Column> sample_columns_;
  OwnedSamples ring_;
  std::vector<std::int64_t> generation_;
  std::optional<PriorityTree> tree_;
  double largest_error_ = 1;
  std::size_t rows_ = 0, next_ = 0;
  std::vector<std::uint32_t> drawn_;
};

}  // namespace rl
