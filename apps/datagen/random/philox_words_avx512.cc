// Sixteen blocks, eight to a register: a word stands in the low half of 64 bits, where a product wants it and leaves
// its own low half; what is above a word is never looked at. Two registers a word, so that one waits while the other
// works.
#include <immintrin.h>

#include "apps/datagen/random/philox_words.h"

namespace datagen::detail {
namespace {

constexpr int kThreeXor = 0x96;  // of vpternlog

struct EightBlocks {
  __m512i c0, c1, c2, c3;

  EightBlocks(std::uint64_t index, std::uint64_t block)
      : c0(_mm512_add_epi64(_mm512_set1_epi64(static_cast<std::int64_t>(block)),
                            _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0))),
        c1(_mm512_srli_epi64(c0, 32)),
        c2(_mm512_set1_epi64(static_cast<std::int64_t>(index))),
        c3(_mm512_srli_epi64(c2, 32)) {}

  void round(__m512i key0, __m512i key1) {
    const __m512i p0 = _mm512_mul_epu32(c0, _mm512_set1_epi64(0xD2511F53));
    const __m512i p1 = _mm512_mul_epu32(c2, _mm512_set1_epi64(0xCD9E8D57));
    c0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1, key0, kThreeXor);
    c2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3, key1, kThreeXor);
    c1 = p1, c3 = p0;
  }

  void store(std::uint32_t* words) const {
    constexpr __mmask16 kHigh = 0xaaaa;
    const __m512i first = _mm512_mask_blend_epi32(kHigh, c0, _mm512_slli_epi64(c1, 32));
    const __m512i second = _mm512_mask_blend_epi32(kHigh, c2, _mm512_slli_epi64(c3, 32));
    const __m512i low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0), high = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    _mm512_storeu_si512(words, _mm512_permutex2var_epi64(first, low, second));
    _mm512_storeu_si512(words + 16, _mm512_permutex2var_epi64(first, high, second));
  }
};

}  // namespace

void philox_words_avx512(apps::PhiloxKey key, std::uint64_t index, std::uint64_t block, std::uint32_t* words) {
  EightBlocks one(index, block), other(index, block + 8);
  for (int round = 0; round < 10; ++round) {
    const __m512i key0 = _mm512_set1_epi64(key[0]), key1 = _mm512_set1_epi64(key[1]);
    one.round(key0, key1);
    other.round(key0, key1);
    key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
  }
  one.store(words);
  other.store(words + 32);
}

}  // namespace datagen::detail
