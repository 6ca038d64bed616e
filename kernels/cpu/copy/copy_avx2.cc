// Copies and casts for AVX2; compiled with those flags, called only where the processor has them.
#if defined(__AVX2__)
// In this order: the register width and the conversions, then what is written over them.
#include "kernels/cpu/isa/half_avx2.inc"

#include "kernels/cpu/copy/copy_simd.inc"

namespace troupe::kernels::detail {
const CopyVersion* copy_avx2() { return &kCopyVector; }
}  // namespace troupe::kernels::detail
#else
#include "kernels/cpu/copy/copy.h"

namespace troupe::kernels::detail {
const CopyVersion* copy_avx2() { return nullptr; }
}  // namespace troupe::kernels::detail
#endif
