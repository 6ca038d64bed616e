#include "apps/rl/algorithms/philox.h"

namespace rl {

std::uint64_t seed_of(const StreamId& id) {
  const PhiloxCounter words =
      philox4x32({id.runner, id.environment, id.life, static_cast<std::uint32_t>(id.resumed_from)},
                 {static_cast<std::uint32_t>(id.job), static_cast<std::uint32_t>(id.job >> 32)});
  return std::uint64_t{words[0]} << 32 | words[1];
}

}  // namespace rl
