// The kernels for AVX-512; compiled with those flags, called only where the processor has them.
#if defined(__AVX512F__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Lanes {
  using Reg = __m512d;
  using Mask = __mmask8;
  static constexpr unsigned kWidth = 8;

  static Reg set1(double v) { return _mm512_set1_pd(v); }
  static Reg load(const double* p) { return _mm512_loadu_pd(p); }
  static Reg load(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
  static void store(double* p, Reg r) { _mm512_storeu_pd(p, r); }
  static Reg add(Reg a, Reg b) { return _mm512_add_pd(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm512_sub_pd(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm512_mul_pd(a, b); }
  static Reg div(Reg a, Reg b) { return _mm512_div_pd(a, b); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_pd(a, b, c); }    // a b + c
  static Reg fnma(Reg a, Reg b, Reg c) { return _mm512_fnmadd_pd(a, b, c); }  // c - a b
  static Reg min(Reg a, Reg b) { return _mm512_min_pd(a, b); }
  static Reg max(Reg a, Reg b) { return _mm512_max_pd(a, b); }
  static Reg floor(Reg v) { return _mm512_roundscale_pd(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  static Reg round(Reg v) { return _mm512_roundscale_pd(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  /// To the nearest float32.
  static Reg rounded(Reg v) { return _mm512_cvtps_pd(_mm512_cvtpd_ps(v)); }
  /// The quarter-th four of them.
  static __m128 floats(Reg v, unsigned quarter) {
    const __m256 all = _mm512_cvtpd_ps(v);
    return quarter == 0 ? _mm256_castps256_ps128(all) : _mm256_extractf128_ps(all, 1);
  }

  static Reg exclusive_or(Reg a, Reg b) { return _mm512_xor_pd(a, b); }
  static Reg and_not(Reg a, Reg b) { return _mm512_andnot_pd(a, b); }
  static Reg sign_of(Reg v) { return _mm512_and_pd(v, set1(-0.0)); }
  template <int kBits>
  static Reg shift_left(Reg v) {
    return _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_castpd_si512(v), kBits));
  }
  static Reg choose_by_sign(Reg sign, Reg set, Reg clear) {
    return _mm512_mask_blend_pd(_mm512_movepi64_mask(_mm512_castpd_si512(sign)), clear, set);
  }

  static Mask less(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
  static Mask not_less(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_NLT_UQ); }
  static Mask equal(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ); }
  static Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }
  static Reg blend(Mask mask, Reg yes, Reg no) { return _mm512_mask_blend_pd(mask, no, yes); }
  static unsigned bits(Mask mask) { return mask; }

  static Reg where_not_zero(const std::int64_t* p, double yes, double no) {
    const __m512i wide = _mm512_loadu_si512(p);
    return _mm512_mask_blend_pd(_mm512_test_epi64_mask(wide, wide), set1(no), set1(yes));
  }
  static Reg numbers(const std::int64_t* p) { return _mm512_cvtepi64_pd(_mm512_loadu_si512(p)); }
  static Mask is_zero(const std::int32_t* p) {
    const __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_testn_epi32_mask(narrow, narrow);
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

#include "apps/rl/envs/classic/kernels.inc"

namespace rl::detail {
const ClassicKernels* classic_kernels_avx512() { return &kKernels; }
}  // namespace rl::detail
#else
#include "apps/rl/envs/classic/lanes.h"

namespace rl::detail {
const ClassicKernels* classic_kernels_avx512() { return nullptr; }
}  // namespace rl::detail
#endif
