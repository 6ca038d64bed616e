// A small seeded generator (PCG-XSH-RR 64/32), handed in wherever chance is needed, so that a seed replays a run.
//
// Usable with the standard's distributions, whose results differ between libraries: below() and unit() do not.
// Thread rule: one thread.
#pragma once
#include <cstdint>
#include <limits>

namespace troupe {

class Random {
 public:
  using result_type = std::uint32_t;

  /// Generators of different streams are independent, also from one seed.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : increment_(stream << 1 | 1) {
    next();
    state_ += seed;
    next();
  }

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() { return next(); }

  std::uint64_t next64() { return std::uint64_t(next()) << 32 | next(); }
  /// Uniform in [0, bound); 0 for bound 0.
  std::uint32_t below(std::uint32_t bound) {
    if (bound == 0) return 0;
    for (const std::uint32_t biased = (0u - bound) % bound;;) {
      if (const std::uint32_t r = next(); r >= biased) return r % bound;
    }
  }
  /// Uniform in [0, 1), 53 bits.
  double unit() { return static_cast<double>(next64() >> 11) * 0x1p-53; }
  bool chance(double probability) { return unit() < probability; }

 private:
  std::uint32_t next() {
    const std::uint64_t old = state_;
    state_ = old * 6364136223846793005u + increment_;
    const auto shifted = static_cast<std::uint32_t>(((old >> 18) ^ old) >> 27);
    const auto turn = static_cast<std::uint32_t>(old >> 59);
    return shifted >> turn | shifted << ((32 - turn) & 31);
  }

  std::uint64_t state_ = 0;
  std::uint64_t increment_;
};

}  // namespace troupe
