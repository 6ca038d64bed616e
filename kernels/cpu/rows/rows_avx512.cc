// Row kernels for AVX-512; compiled with those flags, called only where the processor has them.
#if defined(__AVX512F__)
// In this order: the register type, then what is written over it.
#include "kernels/cpu/isa/simd_avx512.inc"

#include "kernels/cpu/isa/exp_simd.inc"

#include "kernels/cpu/rows/rows_simd.inc"

namespace troupe::kernels::detail {
const RowsVersion<float>* rows_avx512() { return &kRowsVector; }
}  // namespace troupe::kernels::detail
#else
#include "kernels/cpu/rows/rows.h"

namespace troupe::kernels::detail {
const RowsVersion<float>* rows_avx512() { return nullptr; }
}  // namespace troupe::kernels::detail
#endif
