// Draws: seeded random numbers for starts and samples. Plain value, one thread an object.
//
// DW-1  The same seed gives the same draws on every machine (normal() up to the last bit of the C library's log and
//       cos).
// DW-2  Draws are made in double: a float model starts from the rounded numbers of the double one.
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>

namespace troupe::train {

/// SplitMix64 (Steele, Lea and Flood): one addition a step, any seed is as good as any other.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, 1), 53 bits.
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  /// Normal with mean 0 and deviation 1, by Box and Muller; the second of the pair is not kept.
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit()));
    return radius * std::cos(2.0 * std::numbers::pi * unit());
  }

 private:
  std::uint64_t state_;
};

}  // namespace troupe::train
