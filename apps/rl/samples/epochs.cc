#include "apps/rl/samples/epochs.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "apps/rl/algorithms/philox.h"
#include "apps/rl/algorithms/rng.h"

namespace rl {

std::vector<std::uint32_t> Epochs::take(std::uint64_t first, std::size_t count) {
  std::vector<std::uint32_t> out;
  out.reserve(count);
  while (out.size() < count) {
    const std::uint64_t epoch = first / rows_;
    const std::size_t begin = first % rows_, end = std::min(rows_, begin + count - out.size());
    shuffle(epoch);
    out.insert(out.end(), order_.begin() + static_cast<std::ptrdiff_t>(begin),
               order_.begin() + static_cast<std::ptrdiff_t>(end));
    first += end - begin;
  }
  return out;
}

/// Fisher and Yates, from the order of the rows.
void Epochs::shuffle(std::uint64_t epoch) {
  if (!order_.empty() && epoch == epoch_) return;
  epoch_ = epoch;
  order_.resize(rows_);
  std::iota(order_.begin(), order_.end(), 0u);
  Generator generator(seed_of({.job = seed_, .resumed_from = static_cast<std::int64_t>(epoch),
                               .environment = StreamId::kActions}));
  for (std::size_t i = rows_ - 1; i > 0; --i)
    std::swap(order_[i], order_[generator.integers(static_cast<std::uint32_t>(i + 1))]);
}

}  // namespace rl
