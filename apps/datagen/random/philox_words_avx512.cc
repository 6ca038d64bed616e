// Sixteen blocks in four registers of sixteen words: as philox_words_avx2.cc.
#include <immintrin.h>

#include <array>

#include "apps/datagen/random/philox_words.h"

namespace datagen::detail {
namespace {

struct Product {
  __m512i low, high;
};

Product multiply(__m512i a, __m512i factor) {
  const __m512i even = _mm512_mul_epu32(a, factor);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), factor);
  return {_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32)),
          _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd)};
}

}  // namespace

void philox_words_avx512(apps::PhiloxKey key, std::uint64_t index, std::uint64_t block, std::uint32_t* words) {
  alignas(64) std::array<std::uint32_t, 16> low, high;
  for (std::uint32_t i = 0; i < 16; ++i) {
    low[i] = static_cast<std::uint32_t>(block + i);
    high[i] = static_cast<std::uint32_t>((block + i) >> 32);
  }
  __m512i c0 = _mm512_load_si512(low.data()), c1 = _mm512_load_si512(high.data());
  __m512i c2 = _mm512_set1_epi32(static_cast<int>(index)), c3 = _mm512_set1_epi32(static_cast<int>(index >> 32));
  const __m512i factor0 = _mm512_set1_epi64(0xD2511F53), factor1 = _mm512_set1_epi64(0xCD9E8D57);
  for (int round = 0; round < 10; ++round) {
    const Product p0 = multiply(c0, factor0), p1 = multiply(c2, factor1);
    const __m512i k0 = _mm512_set1_epi32(static_cast<int>(key[0])), k1 = _mm512_set1_epi32(static_cast<int>(key[1]));
    c0 = _mm512_xor_si512(_mm512_xor_si512(p1.high, c1), k0);
    c2 = _mm512_xor_si512(_mm512_xor_si512(p0.high, c3), k1);
    c1 = p1.low, c3 = p0.low;
    key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
  }
  const __m512i t0 = _mm512_unpacklo_epi32(c0, c1), t1 = _mm512_unpackhi_epi32(c0, c1);
  const __m512i t2 = _mm512_unpacklo_epi32(c2, c3), t3 = _mm512_unpackhi_epi32(c2, c3);
  // Each holds a block of every group of four: blocks 0, 4, 8, 12; 1, 5, 9, 13; ...
  const __m512i u0 = _mm512_unpacklo_epi64(t0, t2), u1 = _mm512_unpackhi_epi64(t0, t2);
  const __m512i u2 = _mm512_unpacklo_epi64(t1, t3), u3 = _mm512_unpackhi_epi64(t1, t3);
  const __m512i v0 = _mm512_shuffle_i32x4(u0, u1, 0x44), v1 = _mm512_shuffle_i32x4(u0, u1, 0xee);
  const __m512i v2 = _mm512_shuffle_i32x4(u2, u3, 0x44), v3 = _mm512_shuffle_i32x4(u2, u3, 0xee);
  auto* out = reinterpret_cast<__m512i*>(words);
  _mm512_storeu_si512(out + 0, _mm512_shuffle_i32x4(v0, v2, 0x88));
  _mm512_storeu_si512(out + 1, _mm512_shuffle_i32x4(v0, v2, 0xdd));
  _mm512_storeu_si512(out + 2, _mm512_shuffle_i32x4(v1, v3, 0x88));
  _mm512_storeu_si512(out + 3, _mm512_shuffle_i32x4(v1, v3, 0xdd));
}

}  // namespace datagen::detail
