#include "apps/rl/algorithms/action_noise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include <fmt/format.h>
#include <troupe/error.h>

namespace rl {
namespace {

using Complex = std::complex<double>;

/// The inverse of the discrete Fourier transform, without its factor; the size is a power of two (Cooley and Tukey).
void inverse_transform(std::span<Complex> values) {
  const std::size_t n = values.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {  // into the order of reversed bits
    std::size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(values[i], values[j]);
  }
  for (std::size_t half = 1; half < n; half *= 2) {
    for (std::size_t k = 0; k < half; ++k) {
      const Complex turn = std::polar(1.0, std::numbers::pi * static_cast<double>(k) / static_cast<double>(half));
      for (std::size_t first = k; first < n; first += 2 * half) {
        const Complex odd = turn * values[first + half];
        values[first + half] = values[first] - odd;
        values[first] += odd;
      }
    }
  }
}

class OrnsteinUhlenbeck final : public ActionNoise {
 public:
  explicit OrnsteinUhlenbeck(const OrnsteinUhlenbeckOptions& options)
      : options_(options), state_(options.num_envs * options.dimensions) {}

  std::span<const double> next(Generator& generator) override {
    const double push = options_.sigma * std::sqrt(options_.dt);
    for (double& x : state_) x += -options_.theta * x * options_.dt + push * standard_normal(generator);
    return state_;
  }
  void reset(std::size_t env) override {
    std::ranges::fill(std::span(state_).subspan(env * options_.dimensions, options_.dimensions), 0.0);
  }
  void visit(StateVisitor& visitor) override { visitor.numbers("noise", state_); }

 private:
  OrnsteinUhlenbeckOptions options_;
  std::vector<double> state_;
};

class ColoredNoise final : public ActionNoise {
 public:
  explicit ColoredNoise(const ColoredNoiseOptions& options)
      : options_(options),
        place_(options.num_envs, options.period),
        sequences_(options.num_envs * options.dimensions * options.period),
        now_(options.num_envs * options.dimensions) {}

  std::span<const double> next(Generator& generator) override {
    for (std::size_t env = 0; env < options_.num_envs; ++env) {
      if (place_[env] == options_.period) {
        for (std::size_t d = 0; d < options_.dimensions; ++d)
          colored_noise(options_.beta, generator, sequence(env, d));
        place_[env] = 0;
      }
      for (std::size_t d = 0; d < options_.dimensions; ++d)
        now_[env * options_.dimensions + d] = sequence(env, d)[place_[env]];
      ++place_[env];
    }
    return now_;
  }
  void reset(std::size_t env) override { place_[env] = options_.period; }
  void visit(StateVisitor& visitor) override {
    visitor.numbers_within<std::size_t>("place", place_, 0, options_.period);
    visitor.numbers("sequences", sequences_);
  }

 private:
  std::span<double> sequence(std::size_t env, std::size_t dimension) {
    return std::span(sequences_).subspan((env * options_.dimensions + dimension) * options_.period, options_.period);
  }

  ColoredNoiseOptions options_;
  std::vector<std::size_t> place_;  // the period: a sequence is to begin
  std::vector<double> sequences_, now_;
};

class HeldNoise final : public ActionNoise {
 public:
  explicit HeldNoise(const HeldNoiseOptions& options)
      : options_(options), age_(options.num_envs), now_(options.num_envs * options.dimensions) {}

  std::span<const double> next(Generator& generator) override {
    for (std::size_t env = 0; env < options_.num_envs; ++env) {
      if (options_.interval != 0 && age_[env] == options_.interval) age_[env] = 0;
      if (age_[env]++ != 0) continue;
      for (double& one : std::span(now_).subspan(env * options_.dimensions, options_.dimensions))
        one = standard_normal(generator);
    }
    return now_;
  }
  void reset(std::size_t env) override { age_[env] = 0; }
  void visit(StateVisitor& visitor) override {
    constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
    visitor.numbers_within<std::uint64_t>("age", age_, 0, options_.interval == 0 ? kAny : options_.interval);
    visitor.numbers("noise", now_);
  }

 private:
  HeldNoiseOptions options_;
  std::vector<std::uint64_t> age_;  // steps that have had it; 0: it is to be drawn
  std::vector<double> now_;
};

}  // namespace

void colored_noise(double beta, Generator& generator, std::span<double> out) {
  const std::size_t n = out.size();
  if (n < 2 || !std::has_single_bit(n))
    troupe::InvalidArgumentError(fmt::format("{} numbers of colored noise: a power of two is wanted", n)).raise();
  std::vector<Complex> spectrum(n);
  double power = 0;
  for (std::size_t k = 1; k <= n / 2; ++k) {  // the mean, k = 0, is none
    const double scale = std::pow(static_cast<double>(k), -beta / 2);
    const double real = standard_normal(generator), imaginary = standard_normal(generator);
    const bool highest = k == n / 2;  // that is its own mirror: real, of twice the power of a part
    spectrum[k] = highest ? Complex(scale * real * std::numbers::sqrt2, 0) : Complex(scale * real, scale * imaginary);
    if (!highest) spectrum[n - k] = std::conj(spectrum[k]);
    power += (highest ? 2 : 4) * scale * scale;
  }
  inverse_transform(spectrum);
  const double to_unit = 1 / std::sqrt(power);
  for (std::size_t i = 0; i < n; ++i) out[i] = spectrum[i].real() * to_unit;
}

std::unique_ptr<ActionNoise> make_ornstein_uhlenbeck(const OrnsteinUhlenbeckOptions& options) {
  return std::make_unique<OrnsteinUhlenbeck>(options);
}

std::unique_ptr<ActionNoise> make_held_noise(const HeldNoiseOptions& options) {
  return std::make_unique<HeldNoise>(options);
}

std::unique_ptr<ActionNoise> make_colored_noise(const ColoredNoiseOptions& options) {
  if (options.period < 2 || !std::has_single_bit(options.period))
    troupe::InvalidArgumentError(fmt::format("a period of {}: a power of two is wanted", options.period)).raise();
  return std::make_unique<ColoredNoise>(options);
}

}  // namespace rl
