// Gpt: GPT-2's architecture with a forward and backward pass written by hand.
//
// Token plus position embeddings; blocks x += c_proj(attention(ln_1 x)), x += c_proj(gelu(c_fc(ln_2 x))); ln_f; the
// head is the token embedding transposed (tied), so the gradient of wte is the sum of both uses and final only at the
// very end (MD-3). Biases everywhere but in the head, tanh-GELU, no dropout. Weights of linear layers are [out][in];
// c_attn's rows are q, k, v.
//
// Memory: what backward needs of every block is kept, about (10 C + heads T) elements a position and block with inner
// width 4 C; it is allocated at the first batch and again only when a batch has more rows than any before. What norms
// and GELU gave is calculated again: that is cheaper than the way to memory and back. The head runs in slices of rows,
// forward and backward at once, so that logits of a large vocabulary are never held for the whole batch.
//
// Invariants
//   GP-1  A step equals the recorded one: tests/train/golden_gpt_test.cc.
//   GP-2  A block's rows are taken in slices of whole sequences that stay in the cache from the first product to the
//         last. The cut depends on the options and the number of rows only, so MD-4 holds.
//   GP-3  A row of a batch does not influence another row's logits.
// Thread rule: as Model.
#pragma once
#include <memory>
#include <vector>

#include "apps/train/model/gpt_shape.h"
#include "kernels/cpu/linear/attention.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/linear/matmul.h"
#include "kernels/cpu/rows/rows.h"

namespace troupe::train {

template <class T>
class Gpt final : public Model<T> {
 public:
  /// Throws InvalidArgumentError where check() does not pass.
  explicit Gpt(const GptOptions& options, kernels::Isa isa = kernels::best_isa());

  const GptOptions& options() const { return shape_.options(); }
  const Layout& layout() const override { return shape_.layout(); }
  std::size_t parameter_count() const override { return shape_.parameter_count(); }
  /// Normal, deviation 0.02, and 0.02 / sqrt(2 layers) for the two projections into the residual stream; biases 0,
  /// gains 1.
  void initialize(std::uint64_t seed, std::span<T> parameters) const override { shape_.initialize(seed, parameters); }
  /// A token outside the vocabulary, or spans that do not fit the rows: InvalidArgumentError, nothing changed.
  Loss step(const Batch& batch, std::span<const T> parameters, std::span<T> gradients, double divisor,
            const FinalFrom& final_from) override;
  Loss evaluate(const Batch& batch, std::span<const T> parameters) override;
  /// Products of weights and of attention's lower triangle, the backward pass counted twice.
  double step_flops(std::size_t rows) const override { return shape_.step_flops(rows); }

  /// Logits [vocab] of the last of 1 to `time` tokens; InvalidArgumentError as above.
  void next_logits(std::span<const std::int32_t> tokens, std::span<const T> parameters, std::span<T> logits);

  /// Of the last step or evaluate: the residual stream after the embeddings (0) and after block i - 1 (i),
  /// [rows][time][C].
  std::span<const T> stream(std::size_t index) const;
  std::span<const T> normalized() const { return {final_norm_, positions() * options().channels}; }  ///< after ln_f
  /// Logits [rows][time][vocab] from normalized(), with the same parameters.
  void logits(std::span<const T> parameters, std::span<T> out) const;

 private:
  // What one block keeps of forward for backward.
  struct Tape {
    T *qkv, *heads, *middle, *fc;
    T *mean1, *rstd1, *mean2, *rstd2, *lse, *probs;
  };
  struct Slice {
    std::size_t first, rows;  // sequences
  };

  // The four weights of the block in hand, as its products read them.
  struct Packed {
    kernels::PackedFactor<T> qkv, out, fc, proj;
  };
  enum class Direction : std::uint8_t { kForward, kBackward };

  void prepare(std::size_t rows, std::size_t time);
  Slice slice(std::size_t index) const;
  std::size_t slices() const { return (rows_ + slice_rows_ - 1) / slice_rows_; }
  std::size_t positions() const { return rows_ * time_; }
  const GptShape::Block& block() const { return shape_.block(); }
  const T* block_of(const T* flat, std::size_t layer) const { return flat + shape_.block_at(layer); }
  T* block_of(T* flat, std::size_t layer) const { return flat + shape_.block_at(layer); }

  void forward(const std::int32_t* tokens, const T* parameters);
  void pack(const T* w, Direction direction);
  void forward_block(std::size_t layer, Slice slice, const T* w);
  void backward_block(std::size_t layer, Slice slice, const T* w, T* dw, const FinalFrom& final_from);
  Loss head(const std::int32_t* targets, const T* parameters, T* gradients, double divisor);

  GptShape shape_;
  kernels::Isa isa_;

  std::size_t rows_ = 0, time_ = 0;     // of the batch in hand
  std::size_t slice_rows_ = 1;          // sequences a slice
  std::size_t capacity_positions_ = 0;  // what the memory below was made for
  struct Free {
    void operator()(T* p) const;
  };
  std::unique_ptr<T[], Free> memory_;
  std::vector<T*> streams_;  // layers + 1
  std::vector<Tape> tapes_;
  T *final_norm_ = nullptr, *final_mean_ = nullptr, *final_rstd_ = nullptr, *logits_ = nullptr;
  T *norm_ = nullptr, *gelu_ = nullptr;  // of one slice, as all below but dstream_
  T *dstream_ = nullptr, *dwide_ = nullptr, *dqkv_ = nullptr, *dnarrow_ = nullptr;
  std::size_t head_positions_ = 0;  // positions a slice of the head
  kernels::AttentionWorkspace<T> attention_;
  Packed packed_;
};

extern template class Gpt<float>;
extern template class Gpt<double>;

}  // namespace troupe::train
