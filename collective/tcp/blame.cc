#include "collective/tcp/blame.h"

#include <algorithm>
#include <cstddef>

namespace troupe::collective {

namespace {

/// Those for whom the rank waits as far as is known, and that can be what holds it up.
std::vector<int> holding_up(int rank, const Asker& asker, const std::vector<Standing>& ranks) {
  const Standing& its = ranks[std::size_t(rank)];
  std::vector<int> others;
  if (its.waits_in == 0 || its.has_passed(its.waits_in)) return others;
  for (int other : its.awaited) {
    const bool passed = other == asker.rank ? asker.sequence > its.waits_in
                                            : ranks[std::size_t(other)].has_passed(its.waits_in);
    if (other != rank && !passed) others.push_back(other);  // else it has given all
  }
  return others;
}

/// Of ranks that all wait for others among them, or for the asker: the one on a ring that said so first.
int oldest_on_a_ring(std::vector<int> of, const Asker& asker, const std::vector<Standing>& ranks) {
  std::vector<std::vector<int>> edges(ranks.size());
  std::vector<int> waiting(ranks.size());  // how many of the others wait for it
  for (int rank : of)
    for (int other : edges[std::size_t(rank)] = holding_up(rank, asker, ranks)) ++waiting[std::size_t(other)];
  std::vector<int> outside;
  for (int rank : of)
    if (waiting[std::size_t(rank)] == 0) outside.push_back(rank);
  for (std::size_t i = 0; i < outside.size() && outside.size() < of.size(); ++i)
    for (int other : edges[std::size_t(outside[i])])
      if (--waiting[std::size_t(other)] == 0 && other != asker.rank) outside.push_back(other);
  if (outside.size() < of.size())
    std::erase_if(of, [&](int rank) { return std::ranges::find(outside, rank) != outside.end(); });
  return *std::ranges::min_element(of, {}, [&](int rank) { return ranks[std::size_t(rank)].heard; });
}

}  // namespace

std::vector<int> to_blame(const Asker& asker, const std::vector<Standing>& ranks) {
  std::vector<int> looked_at, silent;
  const auto look_at = [&](int rank) {
    if (rank != asker.rank && std::ranges::find(looked_at, rank) == looked_at.end()) looked_at.push_back(rank);
  };
  for (int r = 0; r < int(ranks.size()); ++r)
    if (ranks[std::size_t(r)].sequence < asker.sequence) look_at(r);
  if (looked_at.empty()) std::ranges::for_each(asker.awaited, look_at);
  std::vector<int> waiting;
  for (std::size_t i = 0; i < looked_at.size(); ++i) {
    const int rank = looked_at[i];
    if (ranks[std::size_t(rank)].has_passed(asker.sequence)) continue;  // what it had to give is under way
    const std::vector<int> others = holding_up(rank, asker, ranks);
    (others.empty() ? silent : waiting).push_back(rank);
    std::ranges::for_each(others, look_at);
  }
  if (silent.empty() && !waiting.empty()) silent = {oldest_on_a_ring(waiting, asker, ranks)};
  if (silent.empty() && !looked_at.empty()) silent = {looked_at.front()};
  std::ranges::sort(silent);
  return silent;
}

}  // namespace troupe::collective
