// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011): four random words from a
// counter and a key, without a state. Streams that are told apart by their counters never meet.
//
// Pure; any thread.
//
// PHX-1  The words are Random123's.
#pragma once

#include <array>
#include <cstdint>

namespace rl {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

[[nodiscard]] PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

/// Who draws: a runner of a job, in which of its lives, for which of its environments.
struct StreamId {
  static constexpr std::uint32_t kActions = 0xffffffff;  ///< as `environment`: the runner's own choices
  std::uint64_t job = 0;
  std::uint32_t runner = 0;
  std::uint32_t life = 0;          ///< restarts before
  std::int64_t resumed_from = 0;   ///< environment steps of the job before this run
  std::uint32_t environment = 0;
};
/// Of that stream. Two ids that differ give two seeds, but for steps that are the same modulo 2^32 and a chance of one
/// in 2^64.
[[nodiscard]] std::uint64_t seed_of(const StreamId& id);

}  // namespace rl
