// The kernels for AVX2 and FMA; compiled with those flags, called only where the processor has them.
#if defined(__AVX2__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Lanes {
  using Reg = __m256d;
  using Mask = __m256d;  // all bits of a chosen number
  static constexpr unsigned kWidth = 4;

  static Reg set1(double v) { return _mm256_set1_pd(v); }
  static Reg load(const double* p) { return _mm256_loadu_pd(p); }
  static Reg load(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
  static void store(double* p, Reg r) { _mm256_storeu_pd(p, r); }
  static Reg add(Reg a, Reg b) { return _mm256_add_pd(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm256_sub_pd(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm256_mul_pd(a, b); }
  static Reg div(Reg a, Reg b) { return _mm256_div_pd(a, b); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_pd(a, b, c); }    // a b + c
  static Reg fnma(Reg a, Reg b, Reg c) { return _mm256_fnmadd_pd(a, b, c); }  // c - a b
  static Reg min(Reg a, Reg b) { return _mm256_min_pd(a, b); }
  static Reg max(Reg a, Reg b) { return _mm256_max_pd(a, b); }
  static Reg floor(Reg v) { return _mm256_floor_pd(v); }
  static Reg round(Reg v) { return _mm256_round_pd(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  /// To the nearest float32.
  static Reg rounded(Reg v) { return _mm256_cvtps_pd(_mm256_cvtpd_ps(v)); }
  static __m128 floats(Reg v, unsigned) { return _mm256_cvtpd_ps(v); }

  static Reg exclusive_or(Reg a, Reg b) { return _mm256_xor_pd(a, b); }
  static Reg and_not(Reg a, Reg b) { return _mm256_andnot_pd(a, b); }
  static Reg sign_of(Reg v) { return _mm256_and_pd(v, set1(-0.0)); }
  template <int kBits>
  static Reg shift_left(Reg v) {
    return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(v), kBits));
  }
  static Reg choose_by_sign(Reg sign, Reg set, Reg clear) { return _mm256_blendv_pd(clear, set, sign); }

  static Mask less(Reg a, Reg b) { return _mm256_cmp_pd(a, b, _CMP_LT_OQ); }
  static Mask not_less(Reg a, Reg b) { return _mm256_cmp_pd(a, b, _CMP_NLT_UQ); }
  static Mask equal(Reg a, Reg b) { return _mm256_cmp_pd(a, b, _CMP_EQ_OQ); }
  static Mask both(Mask a, Mask b) { return _mm256_and_pd(a, b); }
  static Reg blend(Mask mask, Reg yes, Reg no) { return _mm256_blendv_pd(no, yes, mask); }
  static unsigned bits(Mask mask) { return static_cast<unsigned>(_mm256_movemask_pd(mask)); }

  static Reg where_not_zero(const std::int64_t* p, double yes, double no) {
    const __m256i wide = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i zero = _mm256_cmpeq_epi64(wide, _mm256_setzero_si256());
    return _mm256_blendv_pd(set1(yes), set1(no), _mm256_castsi256_pd(zero));
  }
  static Reg numbers(const std::int64_t* p) {  // their lower halves
    const __m256i wide = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i low = _mm256_permutevar8x32_epi32(wide, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
    return _mm256_cvtepi32_pd(_mm256_castsi256_si128(low));
  }
  static Mask is_zero(const std::int32_t* p) {
    const __m128i narrow = _mm_cmpeq_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_setzero_si128());
    return _mm256_castsi256_pd(_mm256_cvtepi32_epi64(narrow));
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

#include "apps/rl/envs/classic/kernels.inc"

namespace rl::detail {
const ClassicKernels* classic_kernels_avx2() { return &kKernels; }
}  // namespace rl::detail
#else
#include "apps/rl/envs/classic/lanes.h"

namespace rl::detail {
const ClassicKernels* classic_kernels_avx2() { return nullptr; }
}  // namespace rl::detail
#endif
