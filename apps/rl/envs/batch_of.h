// batch_of: a batch of a user's own environment from one class that is one environment (a Slot of slots_vector_env.h).
// apps/rl/examples/own_env.cc shows it at work.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/slots_vector_env.h"

namespace rl {

namespace detail {
template <class Slot>
class BatchOf final : public SlotsVectorEnv<Slot> {
 public:
  BatchOf(std::vector<Slot> slots, EnvSpecs specs, AutoReset auto_reset)
      : SlotsVectorEnv<Slot>(std::move(slots), std::move(specs), auto_reset) {}
};
}  // namespace detail

/// As many copies of `slot` as the options want; their time limit, where they give one, instead of the specs'.
template <class Slot>
[[nodiscard]] std::unique_ptr<BatchEnv> batch_of(const Slot& slot, EnvSpecs specs, const BatchEnvOptions& options) {
  if (options.max_episode_steps) specs.max_episode_steps = options.max_episode_steps;
  return std::make_unique<detail::BatchOf<Slot>>(std::vector<Slot>(options.num_envs, slot), std::move(specs),
                                                 options.auto_reset);
}

}  // namespace rl
