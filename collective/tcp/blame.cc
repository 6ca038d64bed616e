#include "collective/tcp/blame.h"

#include <algorithm>
#include <cstddef>

namespace troupe::collective {

namespace {

/// Those for whom the rank waits as far as is known, and that can be what holds it up.
std::vector<int> holding_up(int rank, const Asker& asker, const std::vector<Standing>& ranks) {
  const Standing& its = ranks[std::size_t(rank)];
  std::vector<int> others;
  if (its.waits_in == 0 || its.waits_in < its.sequence) return others;  // it has moved since
  for (int other : its.awaited) {
    const std::uint64_t come_to = other == asker.rank ? asker.sequence : ranks[std::size_t(other)].sequence;
    if (other != rank && come_to <= its.waits_in) others.push_back(other);  // else it was passed, and has given all
  }
  return others;
}

}  // namespace

std::vector<int> to_blame(const Asker& asker, const std::vector<Standing>& ranks) {
  std::vector<int> looked_at, silent;
  const auto look_at = [&](int rank) {
    if (rank != asker.rank && std::ranges::find(looked_at, rank) == looked_at.end()) looked_at.push_back(rank);
  };
  for (int r = 0; r < int(ranks.size()); ++r)
    if (ranks[std::size_t(r)].sequence < asker.sequence) look_at(r);
  const bool all_have_come = looked_at.empty();
  if (all_have_come) std::ranges::for_each(asker.awaited, look_at);
  const std::vector<int> first = looked_at;
  for (std::size_t i = 0; i < looked_at.size(); ++i) {
    const int rank = looked_at[i];
    if (ranks[std::size_t(rank)].sequence > asker.sequence) continue;  // what it had to give is under way
    const std::vector<int> others = holding_up(rank, asker, ranks);
    if (others.empty()) silent.push_back(rank);
    std::ranges::for_each(others, look_at);
  }
  if (silent.empty() && !first.empty()) {
    const auto waiting_for = [&](int rank) {
      std::ptrdiff_t count = std::ranges::count(asker.awaited, rank);
      for (int r = 0; r < int(ranks.size()); ++r)
        if (r != asker.rank) count += std::ranges::count(holding_up(r, asker, ranks), rank);
      return count;
    };
    silent = {*std::ranges::max_element(looked_at, {}, waiting_for)};
  }
  std::ranges::sort(silent);
  return silent;
}

}  // namespace troupe::collective
