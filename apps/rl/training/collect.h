// Demonstrations of a policy: episodes that it plays without exploration, on environments seeded one after the other.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <troupe/result.h>

#include "apps/rl/samples/demonstrations.h"
#include "apps/rl/training/checkpoint.h"

namespace rl {

struct CollectOptions {
  std::size_t episodes = 50;
  std::uint64_t seed = 20'000;       // episode i starts from seed + i
  /// After each episode: how many there are, and its return. May throw, to end it.
  std::function<void(std::size_t, double)> on_episode = {};
};

/// InvalidArgumentError when the policy's network does not fit its environment. An episode that faulted is
/// played anew; RuntimeEnvError, thrown, after a hundred in a row.
[[nodiscard]] troupe::Result<Demonstrations> collect(const Policy& policy, const CollectOptions& options);

}  // namespace rl
