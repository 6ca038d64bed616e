// Matrix products for AVX2; compiled with those flags, called only where the processor has them.
#if defined(__AVX2__)
// In this order: the register type, then what is written over it.
#include "kernels/cpu/isa/simd_avx2.inc"

#include "kernels/cpu/linear/matmul_pack_simd.inc"

#include "kernels/cpu/linear/matmul_simd.inc"

namespace troupe::kernels::detail {
const MatmulVersion* matmul_avx2() {
  static constexpr MatmulVersion kVersion{&multiply, &packed_size, &pack_b, &add_rows, &multiply_vector};
  return &kVersion;
}
}  // namespace troupe::kernels::detail
#else
#include "kernels/cpu/linear/matmul.h"

namespace troupe::kernels::detail {
const MatmulVersion* matmul_avx2() { return nullptr; }
}  // namespace troupe::kernels::detail
#endif
