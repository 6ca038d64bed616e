// One choice among those that a mask allows: the best, or any. `allowed` is a byte a choice, 1 for allowed; empty: all
// are.
//
// Pure; any thread with its own generator.
//
// MCH-1  Of equal values the first allowed one is the best.
// MCH-2  draw_choice takes one integer of the generator; without a mask the same one as ever.
// MCH-3  A mask that allows nothing is an InvalidArgumentError, thrown.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <troupe/error.h>

#include "apps/rl/algorithms/rng.h"

namespace rl {

namespace detail {
[[noreturn]] inline void raise_nothing_allowed() {
  troupe::InvalidArgumentError("an action mask that allows nothing").raise();
}
}  // namespace detail

/// The index of the largest value that is allowed.
template <class T>
[[nodiscard]] std::size_t best_allowed(std::span<const T> values, std::span<const std::uint8_t> allowed) {
  if (allowed.empty()) return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
  std::size_t best = values.size();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (allowed[i] != 0 && (best == values.size() || values[i] > values[best])) best = i;
  if (best == values.size()) detail::raise_nothing_allowed();
  return best;
}

/// Any of `n`, each allowed one as likely as another.
[[nodiscard]] inline std::int64_t draw_choice(std::int64_t n, std::span<const std::uint8_t> allowed,
                                              Generator& generator) {
  if (allowed.empty()) return static_cast<std::int64_t>(generator.integers(static_cast<std::uint32_t>(n)));
  const auto possible = std::ranges::count_if(allowed, [](std::uint8_t one) { return one != 0; });
  if (possible == 0) detail::raise_nothing_allowed();
  auto left = static_cast<std::int64_t>(generator.integers(static_cast<std::uint32_t>(possible)));
  std::int64_t at = 0;
  for (; allowed[static_cast<std::size_t>(at)] == 0 || left-- > 0; ++at) {
  }
  return at;
}

}  // namespace rl
