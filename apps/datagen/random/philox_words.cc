#include "apps/datagen/random/philox_words.h"

#include <cstring>

namespace datagen {
namespace {

constexpr std::size_t kWordsAtOnce = 64;

}  // namespace

void philox_words(apps::PhiloxKey key, std::uint64_t index, std::uint64_t block, std::span<std::uint32_t> words,
                  troupe::kernels::Isa isa) {
  std::size_t done = 0;
#if defined(__x86_64__)
  if (isa != troupe::kernels::Isa::kReference)
    for (; done + kWordsAtOnce <= words.size(); done += kWordsAtOnce, block += kWordsAtOnce / 4) {
      if (isa == troupe::kernels::Isa::kAvx512)
        detail::philox_words_avx512(key, index, block, words.data() + done);
      else
        detail::philox_words_avx2(key, index, block, words.data() + done);
    }
#endif
  for (; done < words.size(); done += 4, ++block) {
    const apps::PhiloxCounter four =
        apps::philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                          static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32)},
                         key);
    std::memcpy(words.data() + done, four.data(), sizeof four);
  }
}

}  // namespace datagen
