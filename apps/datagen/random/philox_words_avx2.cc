// Eight blocks in four registers of eight words, twice: products of 32 bits by 32 are made of even and odd lanes.
#include <immintrin.h>

#include <array>

#include "apps/datagen/random/philox_words.h"

namespace datagen::detail {
namespace {

struct Product {
  __m256i low, high;
};

Product multiply(__m256i a, __m256i factor) {
  const __m256i even = _mm256_mul_epu32(a, factor);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), factor);
  return {_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa),
          _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa)};
}

void eight_blocks(apps::PhiloxKey key, std::uint64_t index, std::uint64_t block, std::uint32_t* words) {
  alignas(32) std::array<std::uint32_t, 8> low, high;
  for (std::uint32_t i = 0; i < 8; ++i) {
    low[i] = static_cast<std::uint32_t>(block + i);
    high[i] = static_cast<std::uint32_t>((block + i) >> 32);
  }
  __m256i c0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(low.data()));
  __m256i c1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(high.data()));
  __m256i c2 = _mm256_set1_epi32(static_cast<int>(index)), c3 = _mm256_set1_epi32(static_cast<int>(index >> 32));
  const __m256i factor0 = _mm256_set1_epi64x(0xD2511F53), factor1 = _mm256_set1_epi64x(0xCD9E8D57);
  for (int round = 0; round < 10; ++round) {
    const Product p0 = multiply(c0, factor0), p1 = multiply(c2, factor1);
    const __m256i k0 = _mm256_set1_epi32(static_cast<int>(key[0])), k1 = _mm256_set1_epi32(static_cast<int>(key[1]));
    c0 = _mm256_xor_si256(_mm256_xor_si256(p1.high, c1), k0);
    c2 = _mm256_xor_si256(_mm256_xor_si256(p0.high, c3), k1);
    c1 = p1.low, c3 = p0.low;
    key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
  }
  // From four registers of one word of eight blocks to eight blocks of four words.
  const __m256i t0 = _mm256_unpacklo_epi32(c0, c1), t1 = _mm256_unpackhi_epi32(c0, c1);
  const __m256i t2 = _mm256_unpacklo_epi32(c2, c3), t3 = _mm256_unpackhi_epi32(c2, c3);
  const __m256i u0 = _mm256_unpacklo_epi64(t0, t2), u1 = _mm256_unpackhi_epi64(t0, t2);
  const __m256i u2 = _mm256_unpacklo_epi64(t1, t3), u3 = _mm256_unpackhi_epi64(t1, t3);
  auto* out = reinterpret_cast<__m256i*>(words);
  _mm256_storeu_si256(out + 0, _mm256_permute2x128_si256(u0, u1, 0x20));
  _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(u2, u3, 0x20));
  _mm256_storeu_si256(out + 2, _mm256_permute2x128_si256(u0, u1, 0x31));
  _mm256_storeu_si256(out + 3, _mm256_permute2x128_si256(u2, u3, 0x31));
}

}  // namespace

void philox_words_avx2(apps::PhiloxKey key, std::uint64_t index, std::uint64_t block, std::uint32_t* words) {
  eight_blocks(key, index, block, words);
  eight_blocks(key, index, block + 8, words + 32);
}

}  // namespace datagen::detail
