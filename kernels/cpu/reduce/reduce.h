// Reduction of several arrays into one, element by element: what an all-reduce does to its data.
//
// Pure functions, any thread; nothing is allocated.
//
// RE-1  out[i] = ((in0[i] op in1[i]) op in2[i]) ..., in the order given. 16-bit floats are widened to float, combined
//       in that order, and rounded once.
// RE-2  The same bits from every version (reference, AVX2, AVX-512): nothing is contracted to a fused multiply-add or
//       reassociated. Only the payload of a NaN is open.
// RE-3  kSum and kProduct of integers wrap. kAvg is kSum divided by `ranks` (integers: the wrapped sum, truncated
//       toward zero), kPreMulSum multiplies each input by `scale`, converted to the type calculated in, before it is
//       added.
// RE-4  kMin and kMax give NaN when any input is NaN.
// RE-5  out may be exactly one or more of the inputs, and so may `also`; any other overlap is forbidden. No alignment
//       is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/cpu/isa/dtype.h"
#include "kernels/cpu/isa/isa.h"

namespace troupe::kernels {

enum class ReduceOp : std::uint8_t { kSum = 0, kProduct = 1, kMin = 2, kMax = 3, kAvg = 4, kPreMulSum = 5 };
inline constexpr std::size_t kReduceOpCount = 6;

[[nodiscard]] constexpr std::string_view name_of(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kProduct: return "product";
    case ReduceOp::kMin: return "min";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kAvg: return "avg";
    case ReduceOp::kPreMulSum: return "pre_mul_sum";
  }
  return "unknown";
}

struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  double scale = 1;     ///< kPreMulSum only
  /// kAvg only, at least 1; partial sums may be averaged at the last step, so it is not inputs.size()
  int ranks = 1;
  bool stream = false;  ///< write around the cache: for outputs that nobody reads before they would be evicted anyway
  void* also = nullptr; ///< the result a second time; then stream is about this one, and out is written into the cache
};

/// Reduces `count` elements of every input into out. At least one input; with none, out is left as it is.
void reduce(void* out, std::span<const void* const> inputs, std::size_t count, DType type,
            const ReduceOptions& options);

/// The same on a chosen instruction set; an unsupported one runs the best one below it.
void reduce(Isa isa, void* out, std::span<const void* const> inputs, std::size_t count, DType type,
            const ReduceOptions& options);

namespace detail {

struct ReduceCall {
  std::byte* out;
  std::byte* also;  // null: only out
  const void* const* inputs;
  std::size_t input_count;
  double scale;
  int ranks;
  bool stream;
};

/// One version for one type and operation: elements [begin, end).
using ReduceFunction = void (*)(const ReduceCall&, std::size_t begin, std::size_t end);
struct ReduceVersion {
  ReduceFunction functions[kDTypeCount][kReduceOpCount];
};
extern const ReduceVersion kReduceReference;
const ReduceVersion* reduce_avx2();  // null where it was not built
const ReduceVersion* reduce_avx512();
const ReduceVersion* reduce_avx512_bf16();

}  // namespace detail
}  // namespace troupe::kernels
