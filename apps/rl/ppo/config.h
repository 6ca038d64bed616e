// The settings of one training run, and the options of its parts that follow from them. Plain data.
//
// The numbers that are not settings (learning rate, epochs, ...) are the defaults of PpoOptions and
// RolloutOptions. They were chosen over 60 seeds with 2 workers of 16 environments, and tried on others than the
// bench's (1001 to 1012): all solved, median 73k steps, slowest 92k. Learning rate and clip fall over total_steps; over
// 100,000 steps instead of 500,000 the same twelve have the same median and need 83k at most.
#pragma once

#include <cstddef>
#include <cstdint>

#include "apps/rl/learners/ppo_learner.h"
#include "apps/rl/training/rollout.h"

namespace rl {

struct PpoConfig {
  std::uint64_t seed = 1;
  std::size_t num_workers = 2;
  std::size_t num_envs = 16;  // of each worker
  std::size_t horizon = 64;   // steps of each environment between updates
  std::int64_t total_steps = 500'000;
  bool stop_when_solved = true;

  [[nodiscard]] std::size_t samples_per_worker() const { return num_envs * horizon; }
  friend bool operator==(const PpoConfig&, const PpoConfig&) = default;
};

[[nodiscard]] inline RolloutOptions rollout_options(const PpoConfig& config, std::size_t worker,
                                                    std::int64_t resumed_from) {
  RolloutOptions out;
  out.num_envs = config.num_envs;
  out.horizon = config.horizon;
  out.seed = config.seed;
  out.worker = static_cast<std::uint32_t>(worker);
  out.resumed_from = resumed_from;
  return out;
}

[[nodiscard]] inline PpoOptions learner_options(const PpoConfig& config) {
  PpoOptions out;
  out.policy = cartpole_policy();
  out.seed = config.seed;
  out.learning_rate.over_steps = out.clip.over_steps = config.total_steps;
  return out;
}

}  // namespace rl
