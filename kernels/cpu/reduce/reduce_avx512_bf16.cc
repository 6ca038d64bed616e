// Reductions for AVX-512 with BF16; compiled with those flags, called only where the processor has them.
#if defined(__AVX512BF16__)
// In this order: the register width and the conversions, then what is written over them.
#include "kernels/cpu/isa/half_avx512.inc"

#include "kernels/cpu/reduce/reduce_simd.inc"

namespace troupe::kernels::detail {
const ReduceVersion* reduce_avx512_bf16() { return &kReduceVector; }
}  // namespace troupe::kernels::detail
#else
#include "kernels/cpu/reduce/reduce.h"

namespace troupe::kernels::detail {
const ReduceVersion* reduce_avx512_bf16() { return nullptr; }
}  // namespace troupe::kernels::detail
#endif
