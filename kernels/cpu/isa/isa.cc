#include "kernels/cpu/isa/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace troupe::kernels {
namespace {

// __builtin_cpu_supports of older compilers does not know these two. The registers they use are those of AVX and
// AVX-512, whose support by the system the builtin has checked. Asked once: in a virtual machine cpuid costs
// microseconds.
#if defined(__x86_64__)
bool has_f16c() noexcept {
  static const bool there = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & 1u << 29) != 0;
  }();
  return there;
}

bool has_bf16_instructions() noexcept {
  static const bool there = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 5) != 0;
  }();
  return there;
}
#endif

}  // namespace

bool isa_supported(Isa isa) noexcept {
  switch (isa) {
    case Isa::kReference: return true;
#if defined(__x86_64__)
    case Isa::kAvx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    case Isa::kAvx512:
      return isa_supported(Isa::kAvx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    default: return false;
  }
}

bool has_avx512_bf16() noexcept {
#if defined(__x86_64__)
  return isa_supported(Isa::kAvx512) && has_bf16_instructions();
#else
  return false;
#endif
}

Isa best_isa() noexcept {
  if (isa_supported(Isa::kAvx512)) return Isa::kAvx512;
  if (isa_supported(Isa::kAvx2)) return Isa::kAvx2;
  return Isa::kReference;
}

std::string_view isa_name(Isa isa) noexcept {
  switch (isa) {
    case Isa::kReference: return "reference";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
  }
  return "unknown";
}

}  // namespace troupe::kernels
