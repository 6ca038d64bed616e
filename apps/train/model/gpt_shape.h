// GptShape: what a GPT is before anything is calculated: its options, its flat layout, its start, and which batches fit
// it. Every implementation (gpt.h on the CPU, gpt_cuda.h on a GPU) has one, so that they share parameters and refusals.
//
// Invariants
//   GS-1  The layout is wte, wpe, the blocks, ln_f: every block has the same size, and a block's tensors the same
//         places in it.
//   GS-2  The checks throw InvalidArgumentError and change nothing.
// Thread rule: immutable once made; any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include <troupe/result.h>

#include "apps/train/model/model.h"

namespace troupe::train {

struct GptOptions {
  std::size_t vocab = 65;
  std::size_t time = 64;  ///< the context: positions a row
  std::size_t channels = 128;
  std::size_t layers = 4;
  std::size_t heads = 4;
};

/// InvalidArgumentError where a size is 0 or heads does not divide channels.
Status check(const GptOptions& options);

class GptShape {
 public:
  /// Where a block's tensors are, counted from the block's first parameter.
  struct Block {
    std::size_t ln1_w, ln1_b, qkv_w, qkv_b, out_w, out_b, ln2_w, ln2_b, fc_w, fc_b, proj_w, proj_b, size;
  };

  /// Throws InvalidArgumentError where check() does not pass.
  explicit GptShape(const GptOptions& options);

  const GptOptions& options() const { return options_; }
  const Layout& layout() const { return layout_; }
  const Block& block() const { return block_; }
  std::size_t parameter_count() const { return layout_.back().offset + layout_.back().size; }
  std::size_t wpe() const { return options_.vocab * options_.channels; }  ///< wte is at 0
  std::size_t block_at(std::size_t layer) const { return first_block_ + layer * block_.size; }
  std::size_t ln_f() const { return ln_f_; }  ///< gains, then biases

  /// Model::initialize: the same start for float and double, and on every device.
  template <class T>
  void initialize(std::uint64_t seed, std::span<T> parameters) const;
  double step_flops(std::size_t rows) const;

  void check_parameters(std::size_t parameters) const;
  void check_gradients(std::size_t gradients, double divisor) const;
  void check_tokens(std::span<const std::int32_t> tokens) const;
  void check_batch(const Batch& batch, std::size_t parameters) const;

 private:
  GptOptions options_;
  Layout layout_;
  Block block_{};
  std::size_t first_block_ = 0, ln_f_ = 0;
};

}  // namespace troupe::train
