// Generalized advantage estimation over a rollout of T steps in N environments.
//
// Pure; arrays are [T][N], row-major, and may not overlap. The work is done by kernels/cpu/scans/scans.h, on the
// fastest instruction set.
//
// GAE-1  A step that ended an episode bootstraps from final_value (the value of the true last observation), and not at
//        all when it terminated: termination wins when both flags are set.
// GAE-2  The last row bootstraps from last_value. The recursion never crosses the end of an episode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rl {

struct GaeOptions {
  double gamma = 0.99;
  double lambda = 0.95;
};

template <class T>
struct GaeInput {
  std::size_t steps = 0;
  std::size_t envs = 0;
  std::span<const T> reward, value, final_value;        // [T][N]
  std::span<const std::uint8_t> terminated, truncated;  // [T][N]
  std::span<const T> last_value;                        // [N]
};

/// Writes advantages and returns (advantage + value), both [T][N].
template <class T>
void generalized_advantages(const GaeInput<T>& in, const GaeOptions& options, std::span<T> advantage,
                            std::span<T> returns);

}  // namespace rl
