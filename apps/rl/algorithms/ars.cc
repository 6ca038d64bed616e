#include "apps/rl/algorithms/ars.h"

#include <algorithm>
#include <cmath>

#include "apps/rl/algorithms/philox.h"
#include "apps/rl/algorithms/rng.h"

namespace rl {

void draw_direction(const ArsDirection& which, std::span<float> out) {
  Generator generator(seed_of({.job = which.job,
                               .runner = which.number,
                               .resumed_from = which.update,
                               .environment = StreamId::kActions}));
  for (float& number : out) number = static_cast<float>(standard_normal(generator));
}

std::vector<ArsPair> best_pairs(std::span<const ArsPair> pairs, std::size_t top) {
  std::vector<ArsPair> out(pairs.begin(), pairs.end());
  std::ranges::sort(out, [](const ArsPair& a, const ArsPair& b) {
    const double best_a = std::max(a.plus, a.minus), best_b = std::max(b.plus, b.minus);
    return best_a != best_b ? best_a > best_b : a.direction < b.direction;
  });
  out.resize(std::min(top, out.size()));
  return out;
}

double deviation_of_returns(std::span<const ArsPair> pairs) {
  const auto count = static_cast<double>(2 * pairs.size());
  double mean = 0, squares = 0;
  for (const ArsPair& pair : pairs) mean += (pair.plus + pair.minus) / count;
  for (const ArsPair& pair : pairs)
    squares += (pair.plus - mean) * (pair.plus - mean) + (pair.minus - mean) * (pair.minus - mean);
  return pairs.empty() ? 0 : std::sqrt(squares / count);
}

}  // namespace rl
