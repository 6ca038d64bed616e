#include "collective/schedule/schedule.h"

#include <bit>

namespace troupe::collective {
namespace {

Step send(int peer, Range range) { return {.kind = Step::Kind::kSend, .peer = peer, .range = range}; }
Step receive(int peer, Range range) { return {.kind = Step::Kind::kReceive, .peer = peer, .range = range}; }
Step reduce(Range into, Range from, bool swapped = false) {
  return {.kind = Step::Kind::kReduce, .swapped = swapped, .range = into, .from = from};
}
Range scratch(std::size_t size, std::size_t begin = 0) { return {Memory::kScratch, begin, begin + size}; }
Range data(std::size_t begin, std::size_t end) { return {Memory::kData, begin, end}; }

std::size_t share_size(int ranks, std::size_t count) {
  return count / std::size_t(ranks) + (count % std::size_t(ranks) != 0 ? 1 : 0);
}

// The share of rank r travels once round: it starts at r + 1, each rank adds its own and passes it on, r is the last.
void ring_reduce_scatter(Schedule& out, Position p, std::size_t count) {
  const int next = (p.rank + 1) % p.ranks, before = (p.rank + p.ranks - 1) % p.ranks;
  for (int step = 1; step < p.ranks; ++step) {
    const Range outgoing = share({p.ranks, (p.rank - step + p.ranks) % p.ranks}, count),
                incoming = share({p.ranks, (p.rank - step - 1 + 2 * p.ranks) % p.ranks}, count);
    out.steps.push_back(send(next, outgoing));
    out.steps.push_back(receive(before, scratch(incoming.size())));
    out.steps.push_back(reduce(incoming, scratch(incoming.size()), true));
  }
}
void ring_all_gather(Schedule& out, Position p, std::size_t count) {
  const int next = (p.rank + 1) % p.ranks, before = (p.rank + p.ranks - 1) % p.ranks;
  for (int step = 0; step + 1 < p.ranks; ++step) {
    out.steps.push_back(send(next, share({p.ranks, (p.rank - step + p.ranks) % p.ranks}, count)));
    out.steps.push_back(receive(before, share({p.ranks, (p.rank - step - 1 + p.ranks) % p.ranks}, count)));
  }
}

// Any number of ranks becomes a power of two: each of the first `extra` odd ranks gives its data to the even one before
// it, and gets the result from there. `virtual_rank` is -1 for those that wait.
struct Fold {
  int power, extra, virtual_rank;
  explicit Fold(Position p) : power(int(std::bit_floor(unsigned(p.ranks)))), extra(p.ranks - power) {
    virtual_rank = p.rank >= 2 * extra ? p.rank - extra : p.rank % 2 == 0 ? p.rank / 2 : -1;
  }
  int real(int v) const { return v < extra ? 2 * v : v + extra; }
};
void fold_in(Schedule& out, Position p, const Fold& fold, Range all) {
  if (p.rank >= 2 * fold.extra) return;
  if (p.rank % 2 == 1) {
    out.steps.push_back(send(p.rank - 1, all));
  } else {
    out.steps.push_back(receive(p.rank + 1, scratch(all.size())));
    out.steps.push_back(reduce(all, scratch(all.size())));
  }
}
void fold_out(Schedule& out, Position p, const Fold& fold, Range all) {
  if (p.rank >= 2 * fold.extra) return;
  if (p.rank % 2 == 1) out.steps.push_back(receive(p.rank - 1, all));
  else out.steps.push_back(send(p.rank + 1, all));
}

void recursive_doubling(Schedule& out, Position p, std::size_t count) {
  const Range all = data(0, count);
  const Fold fold(p);
  out.scratch = count;
  fold_in(out, p, fold, all);
  for (int distance = 1; distance < fold.power && fold.virtual_rank >= 0; distance *= 2) {
    const int other = fold.virtual_rank ^ distance;
    out.steps.push_back(send(fold.real(other), all));
    out.steps.push_back(receive(fold.real(other), scratch(count)));
    out.steps.push_back(reduce(all, scratch(count), other < fold.virtual_rank));
  }
  fold_out(out, p, fold, all);
}

void halving_doubling(Schedule& out, Position p, std::size_t count) {
  const Range all = data(0, count);
  const Fold fold(p);
  out.scratch = count;
  fold_in(out, p, fold, all);
  struct Half { int peer; Range kept, given; };
  std::vector<Half> halves;
  Range kept = all;
  for (int distance = fold.power / 2; distance >= 1 && fold.virtual_rank >= 0; distance /= 2) {
    const std::size_t middle = kept.begin + kept.size() / 2;
    const int other = fold.virtual_rank ^ distance;
    const Range low = data(kept.begin, middle), high = data(middle, kept.end);
    const bool takes_low = fold.virtual_rank < other;
    const Half half{fold.real(other), takes_low ? low : high, takes_low ? high : low};
    out.steps.push_back(send(half.peer, half.given));
    out.steps.push_back(receive(half.peer, scratch(half.kept.size())));
    out.steps.push_back(reduce(half.kept, scratch(half.kept.size()), !takes_low));
    halves.push_back(half);
    kept = half.kept;
  }
  for (auto half = halves.rbegin(); half != halves.rend(); ++half) {
    out.steps.push_back(send(half->peer, half->kept));
    out.steps.push_back(receive(half->peer, half->given));
  }
  fold_out(out, p, fold, all);
}

}  // namespace

Range share(Position at, std::size_t count) {
  const auto ranks = std::size_t(at.ranks), rank = std::size_t(at.rank), part = count / ranks, more = count % ranks;
  const std::size_t begin = rank * part + (rank < more ? rank : more);
  return data(begin, begin + part + (rank < more ? 1 : 0));
}

Schedule all_reduce_schedule(Algorithm algorithm, Position at, std::size_t count) {
  Schedule out;
  switch (algorithm) {
    case Algorithm::kRecursiveDoubling: recursive_doubling(out, at, count); return out;
    case Algorithm::kHalvingDoubling: halving_doubling(out, at, count); return out;
    case Algorithm::kOneShot: return one_shot_schedule(at, count);
    case Algorithm::kDirect: return direct_schedule(at, count, {});
    case Algorithm::kRing: break;
  }
  out.scratch = share_size(at.ranks, count);
  ring_reduce_scatter(out, at, count);
  ring_all_gather(out, at, count);
  return out;
}

// Binomial trees: rank v (counted from the root) has its parent where its lowest set bit is cleared.
Schedule broadcast_schedule(Position at, int root, std::size_t count) {
  Schedule out;
  const int v = (at.rank - root + at.ranks) % at.ranks;
  const auto real = [&](int w) { return (w + root) % at.ranks; };
  const int lowest = v == 0 ? int(std::bit_ceil(unsigned(at.ranks))) : v & -v;
  if (v != 0) out.steps.push_back(receive(real(v - lowest), data(0, count)));
  for (int distance = lowest / 2; distance >= 1; distance /= 2)
    if (v + distance < at.ranks) out.steps.push_back(send(real(v + distance), data(0, count)));
  return out;
}

Schedule barrier_schedule(Position at) {
  Schedule out;
  for (int distance = 1; distance < at.ranks; distance *= 2) {
    out.steps.push_back(send((at.rank + distance) % at.ranks, {}));
    out.steps.back().fence = true;  // an empty message says that all of the rounds before have been heard
    out.steps.push_back(receive((at.rank - distance + at.ranks) % at.ranks, {}));
  }
  return out;
}

Algorithm choose_all_reduce(int ranks, std::size_t bytes, bool deterministic) {
  constexpr std::size_t kSmall = 32u << 10, kMiddle = 1u << 20;
  constexpr int kFew = 8;
  if (ranks <= kFew) return bytes <= kSmall ? Algorithm::kOneShot : Algorithm::kDirect;
  if (deterministic) return bytes * std::size_t(ranks) <= 8 * kSmall ? Algorithm::kOneShot : Algorithm::kDirect;
  return bytes <= kSmall   ? Algorithm::kRecursiveDoubling
         : bytes < kMiddle ? Algorithm::kHalvingDoubling
                           : Algorithm::kRing;
}

}  // namespace troupe::collective
