// Schedules in which every rank speaks to every other without a go-between.
#include <algorithm>

#include "collective/schedule/schedule.h"

namespace troupe::collective {
namespace {

Range input(Range range) { return {Memory::kInput, range.begin, range.end}; }
Range scratch_at(std::size_t begin, std::size_t size) { return {Memory::kScratch, begin, begin + size}; }

}  // namespace

// Each rank owns a part of the result (its share, or everything where it is the root). Piece k of all parts is
// *collected*: every rank sends the owners its contribution; and *finished*: reduced in rank order (CSD-3), and sent to
// all where all want it. Piece k + 1 is collected before k is finished. Peers are met in a different order on each
// rank, so that nobody is sent to by all at once.
Schedule direct_schedule(Position p, std::size_t count, const DirectOptions& options) {
  Schedule out;
  const auto owned = [&](int rank) {
    if (options.result < 0) return share({p.ranks, rank}, count);
    return Range{Memory::kData, 0, rank == options.result ? count : 0};
  };
  const int first = std::max(0, options.result);  // no part is larger than this one's
  const std::size_t largest = owned(first).size(), size = std::max<std::size_t>(1, std::min(options.piece, largest));
  const std::size_t pieces = (largest + size - 1) / size, slots = size * std::size_t(p.ranks);
  out.scratch = slots * std::min<std::size_t>(2, pieces);
  const auto piece = [&](int rank, std::size_t k) {
    const Range all = owned(rank);
    const std::size_t begin = std::min(all.begin + k * size, all.end);
    return Range{Memory::kData, begin, std::min(begin + size, all.end)};
  };
  const auto collect = [&](std::size_t k) {
    const Range own = piece(p.rank, k);
    for (int step = 1; step < p.ranks; ++step) {
      const int to = (p.rank + step) % p.ranks, from = (p.rank + p.ranks - step) % p.ranks;
      if (const Range theirs = piece(to, k); theirs.size() != 0)
        out.steps.push_back({.kind = Step::Kind::kSend, .peer = to, .range = input(theirs)});
      const Range into = scratch_at(k % 2 * slots + std::size_t(from) * size, own.size());
      if (own.size() != 0) out.steps.push_back({.kind = Step::Kind::kReceive, .peer = from, .range = into});
    }
  };
  const auto finish = [&](std::size_t k) {
    const Range own = piece(p.rank, k);
    const Range shares = scratch_at(k % 2 * slots, slots);
    if (own.size() != 0) {
      out.steps.push_back({.kind = Step::Kind::kReduceAll, .range = own, .from = shares, .stride = size});
    }
    for (int step = 1; step < p.ranks && options.result == DirectOptions::kAll; ++step) {
      const int to = (p.rank + step) % p.ranks, from = (p.rank + p.ranks - step) % p.ranks;
      if (own.size() != 0) out.steps.push_back({.kind = Step::Kind::kSend, .peer = to, .range = own});
      if (const Range theirs = piece(from, k); theirs.size() != 0)
        out.steps.push_back({.kind = Step::Kind::kReceive, .peer = from, .range = theirs});
    }
  };
  if (pieces != 0) collect(0);
  for (std::size_t k = 0; k < pieces; ++k) {
    if (k + 1 < pieces) collect(k + 1);
    finish(k);
  }
  return out;
}

Schedule one_shot_schedule(Position p, std::size_t count) {
  Schedule out;
  out.scratch = count * std::size_t(p.ranks);
  const Range all{Memory::kData, 0, count};
  for (int step = 1; step < p.ranks; ++step) {
    const int from = (p.rank + p.ranks - step) % p.ranks;
    out.steps.push_back({.kind = Step::Kind::kSend, .peer = (p.rank + step) % p.ranks, .range = input(all)});
    const Range into = scratch_at(std::size_t(from) * count, count);
    out.steps.push_back({.kind = Step::Kind::kReceive, .peer = from, .range = into});
  }
  const Range shares = scratch_at(0, out.scratch);
  out.steps.push_back({.kind = Step::Kind::kReduceAll, .range = all, .from = shares, .stride = count});
  return out;
}

Schedule scattered_broadcast_schedule(Position p, int root, std::size_t count) {
  Schedule out;
  const Range own = share(p, count);
  if (p.rank == root) {
    for (int step = 1; step < p.ranks; ++step) {
      const int to = (root + step) % p.ranks;
      out.steps.push_back({.kind = Step::Kind::kSend, .peer = to, .range = share({p.ranks, to}, count)});
    }
  } else {
    out.steps.push_back({.kind = Step::Kind::kReceive, .peer = root, .range = own});
  }
  for (int step = 1; step < p.ranks; ++step) {
    const int to = (p.rank + step) % p.ranks, from = (p.rank + p.ranks - step) % p.ranks;
    if (to != root) out.steps.push_back({.kind = Step::Kind::kSend, .peer = to, .range = own});
    if (p.rank != root)
      out.steps.push_back({.kind = Step::Kind::kReceive, .peer = from, .range = share({p.ranks, from}, count)});
  }
  return out;
}

}  // namespace troupe::collective
