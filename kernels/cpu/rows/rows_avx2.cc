// Row kernels for AVX2; compiled with those flags, called only where the processor has them.
#if defined(__AVX2__)
// In this order: the register type, then what is written over it.
#include "kernels/cpu/isa/simd_avx2.inc"

#include "kernels/cpu/isa/exp_simd.inc"

#include "kernels/cpu/rows/rows_simd.inc"

namespace troupe::kernels::detail {
const RowsVersion<float>* rows_avx2() { return &kRowsVector; }
}  // namespace troupe::kernels::detail
#else
#include "kernels/cpu/rows/rows.h"

namespace troupe::kernels::detail {
const RowsVersion<float>* rows_avx2() { return nullptr; }
}  // namespace troupe::kernels::detail
#endif
