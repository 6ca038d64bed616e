// The recursions for AVX-512; compiled with those flags, called only where the processor has them.
#if defined(__AVX512F__)
// In this order: the register type, then what is written over it.
#include "kernels/cpu/isa/simd_avx512.inc"

#include "kernels/cpu/isa/exp_simd.inc"

#include "kernels/cpu/scans/scans_simd.inc"

namespace troupe::kernels::detail {
const ScansVersion* scans_avx512() {
  static constexpr ScansVersion kVersion{&gae, &vtrace};
  return &kVersion;
}
}  // namespace troupe::kernels::detail
#else
#include "kernels/cpu/scans/scans.h"

namespace troupe::kernels::detail {
const ScansVersion* scans_avx512() { return nullptr; }
}  // namespace troupe::kernels::detail
#endif
