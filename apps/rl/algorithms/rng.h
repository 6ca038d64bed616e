// NumPy's random numbers, bit for bit: SeedSequence, PCG64 (XSL-RR 128/64) and the draws that Gymnasium makes from
// them.
//
// A Generator is a plain value: copy it, store it, keep one per thread of control. Nothing here is global.
//
// RNG-1  Same seed, same words and same draws as numpy.random.Generator(PCG64(SeedSequence(seed))).
// RNG-2  integers() takes 32-bit halves, low half first; the kept high half survives calls of random() in between.
// RNG-3  uniform(lo, hi) multiplies, then adds: these files are compiled without fused contraction.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace rl {

__extension__ using Uint128 = unsigned __int128;

/// Turns entropy of any length into well-mixed words; children are independent streams.
class SeedSequence {
 public:
  explicit SeedSequence(std::uint64_t entropy) : SeedSequence(entropy, {}) {}
  SeedSequence(std::uint64_t entropy, std::vector<std::uint32_t> spawn_key);

  [[nodiscard]] std::vector<std::uint32_t> generate_state_uint32(std::size_t count) const;
  [[nodiscard]] std::vector<std::uint64_t> generate_state_uint64(std::size_t count) const;

  /// The child that NumPy's spawn() gives as its index-th.
  [[nodiscard]] SeedSequence child(std::uint32_t index) const;

  [[nodiscard]] std::span<const std::uint32_t, 4> pool() const { return pool_; }

 private:
  std::uint64_t entropy_;
  std::vector<std::uint32_t> spawn_key_;
  std::array<std::uint32_t, 4> pool_{};
};

/// PCG64 with NumPy's distributions on it.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : Generator(SeedSequence(seed)) {}
  explicit Generator(const SeedSequence& sequence);

  [[nodiscard]] std::uint64_t next_uint64();
  [[nodiscard]] double random() { return static_cast<double>(next_uint64() >> 11) * 0x1p-53; }
  [[nodiscard]] double uniform(double low, double high) { return low + (high - low) * random(); }

  /// Uniform in [0, bound), by Lemire's method on 32-bit halves (RNG-2). bound is at least 1.
  [[nodiscard]] std::uint32_t integers(std::uint32_t bound);

  [[nodiscard]] Uint128 state() const { return state_; }
  [[nodiscard]] Uint128 increment() const { return increment_; }

  /// Everything, as words that can be stored; restore() takes them back.
  using Saved = std::array<std::uint64_t, 5>;
  [[nodiscard]] Saved save() const;
  void restore(const Saved& saved);

 private:
  [[nodiscard]] std::uint32_t next_uint32();
  void advance();

  Uint128 state_ = 0;
  Uint128 increment_ = 0;
  bool has_half_ = false;
  std::uint32_t half_ = 0;
};

/// Mean 0, variance 1, by Box and Muller (1958) from two draws of random(): not NumPy's ziggurat, whose draws nothing
/// here has to repeat.
[[nodiscard]] double standard_normal(Generator& generator);

}  // namespace rl
