// Many words of one Philox stream at once: the blocks (block, index), (block + 1, index), ... under one key.
//
// Pure; any thread.
//
// PHW-1  All versions give the words of philox4x32({block low, block high, index low, index high}, key): whole numbers
//        only, so they agree to the bit.
#pragma once

#include <cstdint>
#include <span>

#include "apps/common/random/philox.h"
#include "kernels/cpu/isa/isa.h"

namespace datagen {

/// Four words a block; words.size() is a multiple of four.
void philox_words(apps::PhiloxKey key, std::uint64_t index, std::uint64_t block, std::span<std::uint32_t> words,
                  troupe::kernels::Isa isa);

namespace detail {
/// Sixteen blocks: 64 words.
void philox_words_avx2(apps::PhiloxKey key, std::uint64_t index, std::uint64_t block, std::uint32_t* words);
void philox_words_avx512(apps::PhiloxKey key, std::uint64_t index, std::uint64_t block, std::uint32_t* words);
}  // namespace detail

}  // namespace datagen
