#include "apps/rl/algorithms/rng.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace rl {
namespace {

constexpr std::uint32_t kInitA = 0x43b0d7e5;
constexpr std::uint32_t kMultiplierA = 0x931e8875;
constexpr std::uint32_t kInitB = 0x8b51f9dd;
constexpr std::uint32_t kMultiplierB = 0x58f38ded;
constexpr std::uint32_t kMixLeft = 0xca01f9dd;
constexpr std::uint32_t kMixRight = 0x4973f715;
constexpr int kShift = 16;

std::uint32_t hash_mix(std::uint32_t value, std::uint32_t& constant) {
  value ^= constant;
  constant *= kMultiplierA;
  value *= constant;
  return value ^ (value >> kShift);
}

std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t result = kMixLeft * x - kMixRight * y;
  return result ^ (result >> kShift);
}

// The entropy as 32-bit words, low first; with a spawn key it is padded to the size of the pool before the key is
// appended.
std::vector<std::uint32_t> assemble(std::uint64_t entropy, const std::vector<std::uint32_t>& spawn_key) {
  std::vector<std::uint32_t> words{static_cast<std::uint32_t>(entropy)};
  if (entropy >> 32 != 0) words.push_back(static_cast<std::uint32_t>(entropy >> 32));
  while (!spawn_key.empty() && words.size() < 4) words.push_back(0);
  for (std::uint32_t word : spawn_key) words.push_back(word);
  return words;
}

constexpr Uint128 make128(std::uint64_t high, std::uint64_t low) { return static_cast<Uint128>(high) << 64 | low; }
constexpr Uint128 kPcgMultiplier = make128(0x2360ed051fc65da4, 0x4385df649fccf645);

}  // namespace

SeedSequence::SeedSequence(std::uint64_t entropy, std::vector<std::uint32_t> spawn_key)
    : entropy_(entropy), spawn_key_(std::move(spawn_key)) {
  const std::vector<std::uint32_t> words = assemble(entropy_, spawn_key_);
  std::uint32_t constant = kInitA;
  for (std::size_t i = 0; i < pool_.size(); ++i) pool_[i] = hash_mix(i < words.size() ? words[i] : 0, constant);
  for (std::size_t source = 0; source < pool_.size(); ++source) {
    for (std::size_t target = 0; target < pool_.size(); ++target) {
      if (source != target) pool_[target] = mix(pool_[target], hash_mix(pool_[source], constant));
    }
  }
  for (std::size_t source = pool_.size(); source < words.size(); ++source) {
    for (std::uint32_t& target : pool_) target = mix(target, hash_mix(words[source], constant));
  }
}

std::vector<std::uint32_t> SeedSequence::generate_state_uint32(std::size_t count) const {
  std::vector<std::uint32_t> out(count);
  std::uint32_t constant = kInitB;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t value = pool_[i % pool_.size()] ^ constant;
    constant *= kMultiplierB;
    value *= constant;
    out[i] = value ^ (value >> kShift);
  }
  return out;
}

std::vector<std::uint64_t> SeedSequence::generate_state_uint64(std::size_t count) const {
  const std::vector<std::uint32_t> words = generate_state_uint32(2 * count);
  std::vector<std::uint64_t> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = words[2 * i] | static_cast<std::uint64_t>(words[2 * i + 1]) << 32;
  return out;
}

SeedSequence SeedSequence::child(std::uint32_t index) const {
  std::vector<std::uint32_t> key = spawn_key_;
  key.push_back(index);
  return {entropy_, std::move(key)};
}

Generator::Generator(const SeedSequence& sequence) {
  const std::vector<std::uint64_t> words = sequence.generate_state_uint64(4);
  increment_ = make128(words[2], words[3]) << 1 | 1;
  advance();
  state_ += make128(words[0], words[1]);
  advance();
}

void Generator::advance() { state_ = state_ * kPcgMultiplier + increment_; }

std::uint64_t Generator::next_uint64() {
  advance();
  const auto high = static_cast<std::uint64_t>(state_ >> 64);
  const std::uint64_t folded = high ^ static_cast<std::uint64_t>(state_);
  const unsigned rotation = static_cast<unsigned>(high >> 58);
  return folded >> rotation | folded << (-rotation & 63);
}

std::uint32_t Generator::next_uint32() {
  if (has_half_) {
    has_half_ = false;
    return half_;
  }
  const std::uint64_t word = next_uint64();
  has_half_ = true;
  half_ = static_cast<std::uint32_t>(word >> 32);
  return static_cast<std::uint32_t>(word);
}

std::uint32_t Generator::integers(std::uint32_t bound) {
  if (bound <= 1) return 0;  // NumPy draws nothing for a single possible value
  std::uint64_t product = static_cast<std::uint64_t>(next_uint32()) * bound;
  if (static_cast<std::uint32_t>(product) < bound) {
    const std::uint32_t threshold = -bound % bound;
    while (static_cast<std::uint32_t>(product) < threshold) product = static_cast<std::uint64_t>(next_uint32()) * bound;
  }
  return static_cast<std::uint32_t>(product >> 32);
}

Generator::Saved Generator::save() const {
  return {static_cast<std::uint64_t>(state_ >> 64), static_cast<std::uint64_t>(state_),
          static_cast<std::uint64_t>(increment_ >> 64), static_cast<std::uint64_t>(increment_),
          static_cast<std::uint64_t>(has_half_) << 32 | half_};
}

void Generator::restore(const Saved& saved) {
  state_ = make128(saved[0], saved[1]);
  increment_ = make128(saved[2], saved[3]);
  has_half_ = saved[4] >> 32 != 0;
  half_ = static_cast<std::uint32_t>(saved[4]);
}

double standard_normal(Generator& generator) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - generator.random()));
  return radius * std::cos(2.0 * std::numbers::pi * generator.random());
}

}  // namespace rl
