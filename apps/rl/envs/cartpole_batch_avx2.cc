// The CartPole step for AVX2 and FMA; compiled with those flags, called only where the processor has them.
#if defined(__AVX2__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Lanes {
  using Reg = __m256d;
  static constexpr unsigned kWidth = 4;
  static Reg set1(double v) { return _mm256_set1_pd(v); }
  static Reg load(const double* p) { return _mm256_loadu_pd(p); }
  static void store(double* p, Reg r) { _mm256_storeu_pd(p, r); }
  static void store_float(float* p, Reg r) { _mm_storeu_ps(p, _mm256_cvtpd_ps(r)); }
  static Reg add(Reg a, Reg b) { return _mm256_add_pd(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm256_sub_pd(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm256_mul_pd(a, b); }
  static Reg div(Reg a, Reg b) { return _mm256_div_pd(a, b); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_pd(a, b, c); }
  static unsigned beyond(Reg v, double limit) {
    const Reg magnitude = _mm256_andnot_pd(set1(-0.0), v);
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(magnitude, set1(limit), _CMP_GT_OQ)));
  }
  static Reg choose(const std::uint8_t* flags, double yes, double no) {
    const __m256i wide = _mm256_cvtepu8_epi64(_mm_loadu_si32(flags));
    const __m256i zero = _mm256_cmpeq_epi64(wide, _mm256_setzero_si256());
    return _mm256_blendv_pd(set1(yes), set1(no), _mm256_castsi256_pd(zero));
  }
  static unsigned count_up(std::int32_t* counters, std::int32_t limit) {
    auto* p = reinterpret_cast<__m128i*>(counters);
    const __m128i next = _mm_add_epi32(_mm_loadu_si128(p), _mm_set1_epi32(1));
    _mm_storeu_si128(p, next);
    return static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpgt_epi32(next, _mm_set1_epi32(limit - 1)))));
  }
  static void store_flags(std::uint8_t* p, unsigned bits) {
    const std::uint32_t bytes = bits * 0x00204081u & 0x01010101u;  // bit k of four into byte k
    _mm_storeu_si32(p, _mm_cvtsi32_si128(static_cast<int>(bytes)));
  }
};

}  // namespace

#include "apps/rl/envs/cartpole_batch_simd.inc"

namespace rl::detail {
CartPoleStep cartpole_step_avx2() { return &cartpole_step; }
}  // namespace rl::detail
#else
#include "apps/rl/envs/cartpole_lanes.h"

namespace rl::detail {
CartPoleStep cartpole_step_avx2() { return nullptr; }
}  // namespace rl::detail
#endif
