// Normal numbers of a stream, many at once.
//
// Plain value; one thread at a time.
//
// NRD-1  They are a function of the stream alone, on every instruction set: two of Box and Muller (1958) from four
//        words, cosine first. The functions are the C library's.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "apps/datagen/random/stream.h"

namespace datagen {

class Normals {
 public:
  Normals(Stream stream, troupe::kernels::Isa isa) : stream_(stream), isa_(isa) {}

  [[nodiscard]] double next() {
    if (used_ == numbers_.size()) refill();
    return numbers_[used_++];
  }

 private:
  static double uniform(std::uint32_t high, std::uint32_t low) {
    return static_cast<double>((std::uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
  }

  void refill() {
    std::array<std::uint32_t, 2 * kNumbers> words;
    stream_.fill(words, isa_);
    for (std::size_t i = 0; i < kNumbers; i += 2) {
      const std::uint32_t* four = words.data() + 2 * i;
      const double radius = std::sqrt(-2 * std::log1p(-uniform(four[0], four[1])));
      const double angle = 2 * std::numbers::pi * uniform(four[2], four[3]);
      numbers_[i] = radius * std::cos(angle);
      numbers_[i + 1] = radius * std::sin(angle);
    }
    used_ = 0;
  }

  static constexpr std::size_t kNumbers = 128;
  Stream stream_;
  troupe::kernels::Isa isa_;
  std::array<double, kNumbers> numbers_{};
  std::size_t used_ = kNumbers;
};

}  // namespace datagen
