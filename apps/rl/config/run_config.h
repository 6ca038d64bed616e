// RunConfig: all settings of a training run, and the options of its parts that follow from them. A plain value.
//
// The defaults of PPO were chosen on CartPole over 60 seeds with 2 workers of 16 environments, and tried on others than
// the bench's (1001 to 1012): all solved, median 73k steps, slowest 92k. Learning rate and clip fall over total_steps;
// over 100,000 steps instead of 500,000 the same twelve have the same median and need 83k at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/config/env_setup.h"
#include "apps/rl/config/setting.h"
#include "apps/rl/learners/ppo_learner.h"
#include "apps/rl/training/rollout.h"

namespace rl {

struct NetworkSettings {
  std::vector<std::size_t> hidden{64, 64};
  std::string activation = "tanh";
  std::string convolutions = "";  // "16x3x1,32x3x2": filters x kernel x stride
  double initial_log_std = 0;
  friend bool operator==(const NetworkSettings&, const NetworkSettings&) = default;
};

struct PpoSettings {
  double gamma = 0.98, gae_lambda = 0.9;
  std::int64_t epochs = 8;
  std::uint64_t minibatch = 256;
  double learning_rate = 2e-3, learning_rate_last = 2e-4;
  double clip = 0.2, clip_last = 0.1;
  double value_coefficient = 0.5, entropy_coefficient = 0;
  bool value_clipping = false;
  double target_kl = 0;
  double max_grad_norm = 0.5;
  double adam_epsilon = 1e-5;
  friend bool operator==(const PpoSettings&, const PpoSettings&) = default;
};

struct RunConfig {
  std::string algo = "ppo";
  EnvSetup env = {};
  std::uint64_t seed = 1;
  std::uint64_t num_workers = 2;
  std::uint64_t num_envs = 16;  // of each worker
  std::uint64_t horizon = 64;   // steps of each environment between updates
  std::int64_t total_steps = 500'000;
  bool stop_when_solved = true;
  NetworkSettings network = {};
  PpoSettings ppo = {};

  [[nodiscard]] std::size_t samples_per_worker() const { return num_envs * horizon; }
  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

/// All of them; they point into `config`.
[[nodiscard]] std::vector<Setting> settings_of(RunConfig& config);

/// For the spaces of the configuration's environment, which is made for a moment. What MadeEnv::make and policy_for say
/// of it.
struct Task {
  EnvSpecs specs;
  PolicySpec policy;
  Moments moments;  // at the start
};
[[nodiscard]] troupe::Result<Task> task_of(const RunConfig& config);

[[nodiscard]] RolloutOptions rollout_options(const RunConfig& config, const PolicySpec& policy, std::size_t worker,
                                             std::int64_t resumed_from);
[[nodiscard]] PpoOptions learner_options(const RunConfig& config, const PolicySpec& policy);

}  // namespace rl
