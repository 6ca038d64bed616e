// Copies and casts for AVX-512; compiled with those flags, called only where the processor has them.
#if defined(__AVX512F__)
// In this order: the register width and the conversions, then what is written over them.
#include "kernels/cpu/isa/half_avx512.inc"

#include "kernels/cpu/copy/copy_simd.inc"

namespace troupe::kernels::detail {
const CopyVersion* copy_avx512() { return &kCopyVector; }
}  // namespace troupe::kernels::detail
#else
#include "kernels/cpu/copy/copy.h"

namespace troupe::kernels::detail {
const CopyVersion* copy_avx512() { return nullptr; }
}  // namespace troupe::kernels::detail
#endif
