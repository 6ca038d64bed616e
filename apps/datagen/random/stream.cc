#include "apps/datagen/random/stream.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "apps/datagen/random/philox_words.h"

namespace datagen {
namespace {

apps::PhiloxKey key_of(std::uint64_t job, std::uint32_t stream) {
  const apps::PhiloxCounter mixed = apps::philox4x32(
      {stream, 0, 0, 0}, {static_cast<std::uint32_t>(job), static_cast<std::uint32_t>(job >> 32)});
  return {mixed[0], mixed[1]};
}

constexpr float kFloatStep = 0x1p-24F;

}  // namespace

Stream::Stream(std::uint64_t job, std::uint32_t stream, std::uint64_t index)
    : key_(key_of(job, stream)), index_(index) {}

void Stream::refill() {
  philox_words(key_, index_, block_++, words_, troupe::kernels::Isa::kReference);
  used_ = 0;
}

std::uint32_t Stream::next() {
  if (used_ == words_.size()) refill();
  return words_[used_++];
}

std::uint64_t Stream::next_uint64() {
  const std::uint64_t high = next();
  return high << 32 | next();
}

double Stream::uniform() { return static_cast<double>(next_uint64() >> 11) * 0x1p-53; }

float Stream::uniform_float() { return static_cast<float>(next() >> 8) * kFloatStep; }

std::uint32_t Stream::below(std::uint32_t bound) {
  std::uint64_t product = std::uint64_t{next()} * bound;
  if (static_cast<std::uint32_t>(product) < bound) {
    const std::uint32_t least = -bound % bound;
    while (static_cast<std::uint32_t>(product) < least) product = std::uint64_t{next()} * bound;
  }
  return static_cast<std::uint32_t>(product >> 32);
}

double Stream::normal() {
  const double u = uniform(), v = uniform();
  return std::sqrt(-2 * std::log1p(-u)) * std::cos(2 * std::numbers::pi * v);
}

void Stream::fill(std::span<std::uint32_t> words, troupe::kernels::Isa isa) {
  std::size_t done = 0;
  for (; done < words.size() && used_ < words_.size(); ++done) words[done] = words_[used_++];
  const std::size_t whole = (words.size() - done) / 4 * 4;
  philox_words(key_, index_, block_, words.subspan(done, whole), isa);
  block_ += whole / 4;
  for (done += whole; done < words.size(); ++done) words[done] = next();
}

void Stream::fill_uniform(std::span<float> numbers, troupe::kernels::Isa isa) {
  std::array<std::uint32_t, 1024> words;
  for (std::size_t done = 0; done < numbers.size(); done += words.size()) {
    const auto part = numbers.subspan(done, std::min(words.size(), numbers.size() - done));
    fill(std::span(words).first(part.size()), isa);
    for (std::size_t i = 0; i < part.size(); ++i) part[i] = static_cast<float>(words[i] >> 8) * kFloatStep;
  }
}

}  // namespace datagen
