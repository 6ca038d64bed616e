// Adam for AVX2 and FMA; compiled with those flags, called only where the processor has them.
#if defined(__AVX2__)
// In this order: the register type, then what is written over it.
#include "kernels/cpu/isa/simd_avx2.inc"

#include "kernels/cpu/isa/tanh_simd.inc"

#include "kernels/cpu/optimizer/optimizer_simd.inc"

namespace troupe::kernels::detail {
const VectorVersion* vector_avx2() {
  static constexpr VectorVersion kVersion{&adam, &sgd, &tanh_all, &square_sum_blocks, &move_all};
  return &kVersion;
}
}  // namespace troupe::kernels::detail
#else
#include "kernels/cpu/optimizer/optimizer.h"

namespace troupe::kernels::detail {
const VectorVersion* vector_avx2() { return nullptr; }
}  // namespace troupe::kernels::detail
#endif
