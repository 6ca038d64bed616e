// Activations for AVX2; compiled with those flags, called only where the processor has them.
#if defined(__AVX2__)
// In this order: the register type, then what is written over it.
#include "kernels/cpu/isa/simd_avx2.inc"

#include "kernels/cpu/isa/tanh_simd.inc"

#include "kernels/cpu/activation/activation_simd.inc"

namespace troupe::kernels::detail {
const ActivationVersion<float>* activation_avx2() { return &kActivationVector; }
}  // namespace troupe::kernels::detail
#else
#include "kernels/cpu/activation/activation.h"

namespace troupe::kernels::detail {
const ActivationVersion<float>* activation_avx2() { return nullptr; }
}  // namespace troupe::kernels::detail
#endif
