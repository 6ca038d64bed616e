// Stream: the random numbers of one sample: Philox4x32-10 with a key of its own, (job, stream, index), so that a sample
// is the same whoever makes it.
//
//   counter  block (64 bits, of the sample's own draws), index of the sample (64 bits)
//   key      job (the data set's seed) and the stream's number, mixed by one Philox block: two draws of one sample
//            for different purposes never share words when their streams' numbers differ
//
// Plain value; copy it to fork it, one thread at a time.
//
// DST-1  Words are those of philox4x32(counter, key) in order: fill() gives what as many calls of next() give, on every
//        instruction set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/common/random/philox.h"
#include "kernels/cpu/isa/isa.h"

namespace datagen {

class Stream {
 public:
  /// `stream`: which of a generator's purposes; below 2^32.
  Stream(std::uint64_t job, std::uint32_t stream, std::uint64_t index);

  [[nodiscard]] std::uint32_t next();
  [[nodiscard]] std::uint64_t next_uint64();
  /// In [0, 1), of 53 bits.
  [[nodiscard]] double uniform();
  /// In [0, 1), of 24 bits.
  [[nodiscard]] float uniform_float();
  /// In [0, bound), without bias (Lemire, 2019). bound is at least 1.
  [[nodiscard]] std::uint32_t below(std::uint32_t bound);
  /// Mean 0, variance 1 (Box and Muller, 1958): four words a draw.
  [[nodiscard]] double normal();

  /// As many words, by the fastest code that `isa` allows.
  void fill(std::span<std::uint32_t> words, troupe::kernels::Isa isa);
  /// Each as uniform_float().
  void fill_uniform(std::span<float> numbers, troupe::kernels::Isa isa);

  /// The next word is the first of that block: for whoever gives each of its rows some blocks of one stream.
  void seek(std::uint64_t block) { block_ = block, used_ = 4; }

 private:
  void refill();

  apps::PhiloxKey key_;
  std::uint64_t index_, block_ = 0;  // block_: the next one
  apps::PhiloxCounter words_{};
  unsigned used_ = 4;  // of words_
};

}  // namespace datagen
