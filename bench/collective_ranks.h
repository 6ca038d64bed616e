// The ranks of one row of bench/collectives: forked processes, each pinned to a core, that do the same all-reduce many
// times.
//
// How a row is measured: before each operation all ranks meet in a barrier; its time is that of the slowest rank; the
// row is the median of the iterations. "b2b" is the mean of the same operations back to back. T_min is the time in
// which all ranks copy their own input to their own output at once with streaming stores: an all-reduce cannot take
// less, and efficiency = T_min / T. How the cores of the first two ranks stand to each other is looked at before and
// after (Cores): on a virtual machine it tells whether the row is worth anything. "others" is the share of the CPUs
// that went to other processes meanwhile.
//
// Thread rule: a process without threads, which forks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe::bench {

/// kTcp: over loopback. kHier: two ranks a node, shared memory inside, loopback between.
enum class Wire : std::uint8_t { kShm, kTcp, kHier };
const char* name_of(Wire wire);

struct Job {
  std::string row;
  std::size_t bytes = 0;
  int ranks = 2;
  bool bf16 = false;
  Wire wire = Wire::kShm;
  std::string efficiency = {};  ///< the row for T_min / T, where memory limits it

  std::size_t count() const { return bytes / (bf16 ? 2 : 4); }
};

/// How often.
struct Effort {
  int copies = 5;
  int iterations = 200;  ///< at most kIterationsMax
};
inline constexpr int kIterationsMax = 20'000;

/// Of the first two ranks. A host may move a machine's CPUs at any time, and put two of them on one core as its
/// threads.
enum class Cores : std::uint8_t {
  kApart,   ///< two cores all the time
  kMoved,   ///< the line's round trip changed by more than a third meanwhile
  kOne,     ///< at one moment or another each multiplied much slower while the other did
};
const char* name_of(Cores cores);

/// Times in seconds.
struct Outcome {
  double out_of_place = 0, in_place = 0, back_to_back = 0, t_min = 0;
  double round_trip_ns = 0;  ///< of a cache line, the lesser of before and after
  Cores cores = Cores::kApart;
  double others = 0;         ///< the share of the CPUs that went to other processes, or other machines of the host
  std::uint64_t wrong = 0, wrong_in_place = 0;  ///< elements, of all ranks

  /// Bytes a second of T_min, read plus written, of all ranks together.
  double copy_rate(const Job& job) const { return 2.0 * job.ranks * static_cast<double>(job.bytes) / t_min; }
};

/// Throws Error when a rank fails.
Outcome run_ranks(const Job& job, const Effort& effort);

}  // namespace troupe::bench
