// Schedules: what one rank does in a collective that travels in messages, as a list of steps. Pure functions of the
// algorithm, the number of ranks, the rank and the number of elements; a backend carries the steps out, tests carry
// them out on simulated ranks.
//
//   all_reduce     kRing: 2 (n-1) steps, 2 (n-1)/n of the data out and in: large data
//                  kRecursiveDoubling: log n steps of all the data: small data
//                  kHalvingDoubling: 2 log n steps, as many bytes as the ring: in between
//                  kDirect: every rank reduces its own share in rank order, as many bytes as the ring: deterministic
//                  kOneShot: everybody sends everything to everybody and reduces it: one step, small data,
//                  deterministic
//   reduce, reduce_scatter   direct_schedule for the root, or for shares: deterministic
//   broadcast      a binomial tree, log n steps; large data: a share to every rank, which passes it on to all
//   barrier        dissemination, log n rounds of empty messages
//
// A rank has three memories: its input, its data (the output; the same memory as the input unless a schedule says
// otherwise) and scratch. Element ranges are half open. Direct schedules come in pieces, two of them under way at once,
// so that sending, receiving and reducing overlap and a piece is reduced while it is in the cache. They, one-shot ones
// and those that only move keep input and data apart.
//
// Invariants
//   CSD-1  The k-th message that a sends to b is the k-th that b receives from a, and both have the same size.
//   CSD-2  A step uses only what earlier steps of the same rank have made. Whoever carries out two steps at once keeps
//          apart those that touch the same memory (TCM-2).
//   CSD-3  With kDirect and kOneShot every element is reduced in rank order; with the others in one order that all
//          ranks share.
// Thread rule: pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::collective {

enum class Algorithm : std::uint8_t { kRing, kRecursiveDoubling, kHalvingDoubling, kDirect, kOneShot };
enum class Memory : std::uint8_t { kData, kScratch, kInput };

struct Range {
  Memory memory = Memory::kData;
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// kSend: `range` to `peer`. kReceive: from `peer` into `range`. kReduce: `range` = `range` op `from`, or `from` op
/// `range` when `swapped` (the lower ranks stand on the left). kCopy: `range` = `from`. kReduceAll: `range` = the
/// contributions of all ranks in rank order: rank r's lies in `from` at r * stride, the own one in the input at the
/// place of `range`.
struct Step {
  enum class Kind : std::uint8_t { kSend, kReceive, kReduce, kCopy, kReduceAll };
  Kind kind = Kind::kSend;
  bool swapped = false;
  int peer = -1;
  Range range{}, from{};
  std::size_t stride = 0;
  bool fence = false;  ///< not before everything received in earlier steps is here
};

struct Schedule {
  std::vector<Step> steps;
  std::size_t scratch = 0;  ///< elements
};

struct Position { int ranks = 1, rank = 0; };

/// The elements of `count` that belong to `rank`: parts differ by one element at most.
Range share(Position at, std::size_t count);

Schedule all_reduce_schedule(Algorithm algorithm, Position at, std::size_t count);
/// kDirect in pieces of at most `piece` elements; kAll: everybody gets everything, kShares: each rank its share, else
/// the root gets everything.
struct DirectOptions {
  static constexpr int kAll = -1, kShares = -2;
  int result = kAll;
  std::size_t piece = std::size_t(-1);
};
Schedule direct_schedule(Position at, std::size_t count, const DirectOptions& options);
Schedule one_shot_schedule(Position at, std::size_t count);
Schedule broadcast_schedule(Position at, int root, std::size_t count);
/// The root sends every rank its share, which passes it on to all.
Schedule scattered_broadcast_schedule(Position at, int root, std::size_t count);
Schedule barrier_schedule(Position at);

/// What an all-reduce in messages uses; the borders are those that others have published, until they are measured here.
Algorithm choose_all_reduce(int ranks, std::size_t bytes, bool deterministic);

}  // namespace troupe::collective
