// Augmented random search (Mania, Guy and Recht, "Simple random search of static linear policies is competitive for
// reinforcement learning", NeurIPS 2018): directions drawn at random, each tried forwards and backwards, and a step
// along those that mattered most.
//
//   params += learning_rate / (top * deviation + 1e-6) * sum over the top pairs of (plus - minus) * direction
//
// The 1e-6 is Stable-Baselines3's: returns that are all the same make no step instead of an infinite one.
//
// Pure; any thread.
//
// Invariants
//   ARS-1  A direction depends on its name alone, not on who draws it or what was drawn before.
//   ARS-2  Pairs count by the larger of their two returns; of equals the one with the smaller number comes first.
//   ARS-3  The deviation is that of the 2 * top returns that count (of a population).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rl {

struct ArsDirection {
  std::uint64_t job = 0;       // the run's seed
  std::int64_t update = 0;
  std::uint32_t number = 0;    // within the update
};
/// Standard normal numbers.
void draw_direction(const ArsDirection& which, std::span<float> out);

/// The returns of an episode with the direction added, and of one with it subtracted.
struct ArsPair {
  std::uint32_t direction = 0;
  double plus = 0, minus = 0;
};

/// The `top` pairs that count, best first; all of them when there are fewer.
[[nodiscard]] std::vector<ArsPair> best_pairs(std::span<const ArsPair> pairs, std::size_t top);
/// Of their returns.
[[nodiscard]] double deviation_of_returns(std::span<const ArsPair> pairs);

}  // namespace rl
