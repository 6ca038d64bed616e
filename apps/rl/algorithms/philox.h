// Seeds of the streams of a run, each of its own: who draws, in which life, for what.
//
// Pure; any thread.
#pragma once

#include <cstdint>

#include "apps/common/random/philox.h"

namespace rl {

using apps::philox4x32;
using apps::PhiloxCounter;
using apps::PhiloxKey;

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
