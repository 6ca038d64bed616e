// The CartPole step for AVX-512; compiled with those flags, called only where the processor has them.
#if defined(__AVX512F__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Lanes {
  using Reg = __m512d;
  static constexpr unsigned kWidth = 8;
  static Reg set1(double v) { return _mm512_set1_pd(v); }
  static Reg load(const double* p) { return _mm512_loadu_pd(p); }
  static void store(double* p, Reg r) { _mm512_storeu_pd(p, r); }
  static void store_float(float* p, Reg r) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(r)); }
  static Reg add(Reg a, Reg b) { return _mm512_add_pd(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm512_sub_pd(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm512_mul_pd(a, b); }
  static Reg div(Reg a, Reg b) { return _mm512_div_pd(a, b); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_pd(a, b, c); }
  static unsigned beyond(Reg v, double limit) { return _mm512_cmp_pd_mask(_mm512_abs_pd(v), set1(limit), _CMP_GT_OQ); }
  static Reg choose(const std::uint8_t* flags, double yes, double no) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(flags));
    const auto mask = static_cast<__mmask8>(_mm_test_epi8_mask(bytes, bytes));
    return _mm512_mask_blend_pd(mask, set1(no), set1(yes));
  }
  static unsigned count_up(std::int32_t* counters, std::int32_t limit) {
    auto* p = reinterpret_cast<__m256i*>(counters);
    const __m256i next = _mm256_add_epi32(_mm256_loadu_si256(p), _mm256_set1_epi32(1));
    _mm256_storeu_si256(p, next);
    return _mm256_cmpge_epi32_mask(next, _mm256_set1_epi32(limit));
  }
  static void store_flags(std::uint8_t* p, unsigned bits) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_maskz_set1_epi8(static_cast<__mmask16>(bits), 1));
  }
};

}  // namespace

#include "apps/rl/envs/cartpole_batch_simd.inc"

namespace rl::detail {
CartPoleStep cartpole_step_avx512() { return &cartpole_step; }
}  // namespace rl::detail
#else
#include "apps/rl/envs/cartpole_lanes.h"

namespace rl::detail {
CartPoleStep cartpole_step_avx512() { return nullptr; }
}  // namespace rl::detail
#endif
