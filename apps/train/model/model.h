// Model: what the trainer knows of a network: a flat parameter vector with a layout, and a step that adds to a flat
// gradient.
//
// The trainer (trainer.h) knows no architecture; a model knows no ranks, buckets or optimizer. Between them lie flat
// arrays, so that a bucket, a shard and a checkpoint are all ranges of one vector.
//
// Invariants
//   MD-1  Gradients are added to what is there: micro-batches accumulate.
//   MD-2  A gradient is that of (sum of row losses) / divisor. Ranks that give the global count as divisor *sum* their
//         gradients.
//   MD-3  During backward, `final_from(i)` is called with falling i: no element at or after i will be written again in
//         this step. The last call is final_from(0). What arrives in one call need not be one tensor.
//   MD-4  The same parameters, rows and divisor give the same bits, whatever came before.
// Thread rule: one thread a model object; several objects may share the parameters.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace troupe::train {

/// A tensor in the flat vector; weight decay applies to it or not (as a rule: two or more axes).
struct Tensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::size_t offset = 0, size = 0;
  bool decayed = true;
};
using Layout = std::vector<Tensor>;  ///< by rising offset, without gaps

/// Rows of a data set. What an input row is, the model says: pixels for an MLP, tokens for a GPT.
struct Batch {
  std::size_t rows = 0;
  std::span<const float> features;       ///< [rows][inputs]; empty for token models
  std::span<const std::int32_t> tokens;  ///< [rows][time]; empty for feature models
  std::span<const std::int32_t> targets; ///< [rows] or [rows][time]; below 0: not counted
};

struct Loss {
  double sum = 0;            ///< over the counted targets, in row order
  std::size_t counted = 0;
  std::size_t correct = 0;   ///< targets that had the highest logit; feature models only
};

using FinalFrom = std::function<void(std::size_t offset)>;

template <class T>
class Model {
 public:
  virtual ~Model() = default;
  virtual const Layout& layout() const = 0;
  virtual std::size_t parameter_count() const = 0;
  /// The architecture's start, from a seed.
  virtual void initialize(std::uint64_t seed, std::span<T> parameters) const = 0;
  /// Forward and backward of one micro-batch (MD-1 to MD-3). final_from may be empty.
  virtual Loss step(const Batch& batch, std::span<const T> parameters, std::span<T> gradients, double divisor,
                    const FinalFrom& final_from) = 0;
  virtual Loss evaluate(const Batch& batch, std::span<const T> parameters) = 0;
  /// Multiplications and additions of a step of that many rows, for GFLOP/s.
  virtual double step_flops(std::size_t rows) const = 0;
};

}  // namespace troupe::train
