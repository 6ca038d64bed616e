// DeviceLinear: linear layers y = x w^T + b in device memory, forward and backward, with parameters and gradients in a
// GPT's flat vectors.
//
// kFloat: products of floats. kBFloat16: factors are rounded to bfloat16 and multiplied on tensor cores with float
// sums; the result of a product is a bfloat16 once more. What goes in and comes out, and all gradients' sums, are float
// either way, so that who uses it knows nothing of it.
//
// Invariants
//   LY-1  Gradients of weights and biases are added to what is there; dx is overwritten.
// Thread rule: one thread; everything is enqueued on the default stream.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"

namespace troupe::train {

using kernels::cuda::Cuda;
using kernels::cuda::DeviceBuffer;
using kernels::cuda::DeviceCarver;

enum class Precision : std::uint8_t { kFloat, kBFloat16 };

/// Flat vectors in device memory.
struct DeviceParameters {
  const float* values = nullptr;
  const std::uint16_t* working = nullptr;  ///< bfloat16 of all of them; kBFloat16 only
  float* gradients = nullptr;              ///< null: forward only
};

class DeviceLinear {
 public:
  static constexpr std::size_t kNoBias = SIZE_MAX;
  struct Layer {
    std::size_t in, out, weight, bias;  ///< offsets in the flat vectors
  };

  explicit DeviceLinear(const Cuda& cuda, Precision precision) : cuda_(&cuda), precision_(precision) {}

  /// Scratch for layers of at most so many elements of x, of y, and of weights.
  void carve(DeviceCarver& carver, std::size_t wide, std::size_t weights);

  void forward(const DeviceParameters& p, const Layer& layer, std::size_t rows, const float* x, float* y) const;
  /// LY-1. dx may not be x or dy.
  void backward(const DeviceParameters& p, const Layer& layer, std::size_t rows, const float* x, const float* dy,
                float* dx) const;

 private:
  const Cuda* cuda_;
  Precision precision_;
  std::uint16_t *x_ = nullptr, *y_ = nullptr, *weights_ = nullptr;  // bfloat16
  float* wide_weights_ = nullptr;
};

/// Between float and bfloat16.
void device_narrow(const Cuda& cuda, std::uint16_t* to, const float* from, std::size_t count);
void device_widen(const Cuda& cuda, float* to, const std::uint16_t* from, std::size_t count);
/// out += in
void device_add(const Cuda& cuda, float* out, const float* in, std::size_t count);

}  // namespace troupe::train
