// GptDevice: forward and backward of a GPT (gpt.h has the architecture) in the memory of a GPU, by the kernels of
// kernels/cuda/plugin.h. Parameters, gradients, tokens and targets are the caller's, in device memory; what lies
// between is its own. Everything is enqueued; only loss() and logits() wait.
//
// Memory: of every block its input, qkv, attention, middle and fc are kept, 10 C elements a position; what norms and
// GELU gave is calculated again. The head runs in slices of rows, so that the logits of a large vocabulary are never
// held for the whole batch. All of it is one allocation, made at the first batch and again only when a batch has more
// rows than any before.
//
// Invariants
//   DG-1  Gradients are added to what is there (MD-1); that of wte is the sum of both of its uses.
//   DG-2  During backward, `enqueued(i)` is called with falling i: every write at or after i has been enqueued. The
//         last call is enqueued(0).
//   DG-3  A `repeatable` step repeats its bits. Otherwise the embedding's gradient is added in any order, which is
//         faster.
//   DG-4  After an exception the object may be used again; gradients are then undefined.
// Thread rule: one thread, whose GPU is that of `cuda`, which outlives the object.
#pragma once
#include <vector>

#include "apps/train/model/device_linear.h"
#include "apps/train/model/gpt_shape.h"

namespace troupe::train {

struct GptDeviceOptions {
  /// of the products; streams, norms, softmax of the head and gradients are float
  Precision precision = Precision::kFloat;
  bool repeatable = true;                   ///< DG-3
  std::size_t head_logits = std::size_t{1} << 27;  ///< logits held at a time
};

/// InvalidArgumentError: heads that the kernels do not have (wider than 128 channels; 64 in bfloat16).
Status check_device_heads(const GptOptions& gpt, Precision precision);

class GptDevice {
 public:
  /// Throws what check_device_heads returns.
  GptDevice(const Cuda& cuda, const GptShape& shape, const GptDeviceOptions& options);

  /// Room for so many rows. OutOfMemoryError: there is none; what was there before is given back.
  void reserve(std::size_t rows);
  /// One micro-batch of at least one row, all arrays [rows][time]. Without p.gradients forward only. enqueued may be
  /// empty.
  void step(std::size_t rows, const std::int32_t* tokens, const std::int32_t* targets, const DeviceParameters& p,
            double divisor, const FinalFrom& enqueued);
  /// Of the last step. Waits for it.
  Loss loss() const;
  /// Of the last step, with its parameters: [rows][time][vocab], in host memory. Waits.
  void logits(const DeviceParameters& p, std::span<float> out) const;

 private:
  struct Tape {
    float *qkv, *heads, *middle, *fc, *mean1, *rstd1, *mean2, *rstd2, *lse;
  };
  struct Norm {
    std::size_t weight, bias;  // offsets in the flat vectors
    float *mean, *rstd;
  };
  enum class Which { kQkv, kOut, kFc, kProj };

  std::size_t carve(std::size_t rows, std::byte* memory);
  std::size_t positions() const { return rows_ * shape_.options().time; }
  DeviceLinear::Layer layer(std::size_t index, Which which) const;
  DeviceLinear::Layer head_layer() const;
  Norm norm1(std::size_t index) const;
  Norm norm2(std::size_t index) const;
  Norm final_norm() const;
  void forward_norm(const Norm& norm, const float* x, float* y) const;
  void backward_norm(const Norm& norm, const float* x, const float* dy, float* dx) const;
  void attention_forward(const Tape& tape) const;
  void attention_backward(const Tape& tape, const float* dout, float* dqkv) const;
  void forward(const std::int32_t* tokens) const;
  void forward_block(std::size_t index) const;
  void head(const std::int32_t* targets, double divisor) const;
  void backward_block(std::size_t index) const;

  const Cuda* cuda_;
  GptShape shape_;
  GptDeviceOptions options_;
  DeviceLinear linear_;
  DeviceParameters p_;                     // of the step in hand
  std::size_t rows_ = 0, capacity_ = 0;    // rows
  std::size_t head_positions_;             // a slice of the head
  DeviceBuffer<std::byte> memory_;
  std::vector<float*> streams_;            // layers + 1
  std::vector<Tape> tapes_;
  float *final_norm_ = nullptr, *final_mean_ = nullptr, *final_rstd_ = nullptr;
  float *logits_ = nullptr, *row_loss_ = nullptr;
  double* results_ = nullptr;              // two a slice of the head
  float *norm_ = nullptr, *gelu_ = nullptr, *dstream_ = nullptr, *dnarrow_ = nullptr, *dwide_ = nullptr,
        *delta_ = nullptr;
  std::uint16_t *qkv_half_ = nullptr, *heads_half_ = nullptr, *dheads_half_ = nullptr, *dqkv_half_ = nullptr;
};

}  // namespace troupe::train
