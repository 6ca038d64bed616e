// N environments stepped together, with Gymnasium's automatic reset. Any environment; for CartPole alone
// cartpole_batch.h is faster.
//
// One thread at a time. Environment i has its own generator seeded with seed + i, and each reset continues that
// stream.
//
// VE-1  kNextStep: the ending step returns the terminal observation; the next call ignores that environment's action,
//       resets it and returns the reset observation, reward 0 and no flags. Such a row is no transition: `is_reset`
//       marks it.
// VE-2  kSameStep: the ending step returns the reset observation of the new episode; the terminal one is in
//       final_obs.
// VE-3  truncated is set by count alone: both flags can be true on one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "apps/rl/envs/env.h"

namespace rl {

enum class AutoReset { kNextStep, kSameStep };

struct VectorEnvOptions {
  std::size_t num_envs = 1;
  AutoReset auto_reset = AutoReset::kNextStep;
  std::optional<int> max_episode_steps;  // default: the environment's own
};

/// The result of one vector step; rows are environments. Reused by the next step.
struct VectorStep {
  std::vector<float> obs;  // [num_envs][obs_size]
  std::vector<double> reward;
  std::vector<std::uint8_t> terminated, truncated;
  std::vector<std::uint8_t> is_reset;        // VE-1
  std::vector<float> final_obs;              // VE-2, rows of the environments that ended; the rest is old
  std::vector<double> episode_return;        // valid where an episode ended in this step
  std::vector<std::int64_t> episode_length;  // likewise
};

class VectorEnv {
 public:
  static troupe::Result<VectorEnv> make(std::string_view id, const VectorEnvOptions& options);

  /// Seeds environment i with seed + i and resets all; the observations are in last().obs.
  void reset(std::uint64_t seed);
  const VectorStep& step(std::span<const Action> actions);

  [[nodiscard]] const VectorStep& last() const { return out_; }
  [[nodiscard]] const Env& env(std::size_t index) const { return *slots_[index].env; }
  [[nodiscard]] std::size_t size() const { return slots_.size(); }

 private:
  struct Slot {
    std::unique_ptr<Env> env;
    Generator generator;
    std::int64_t steps = 0;
    double episode_return = 0;
    bool ended = false;
  };
  VectorEnv(std::vector<Slot> slots, const VectorEnvOptions& options);
  void reset_slot(std::size_t index);
  void step_slot(std::size_t index, Action action);
  [[nodiscard]] std::span<float> obs_row(std::vector<float>& rows, std::size_t index) const;

  std::vector<Slot> slots_;
  AutoReset auto_reset_;
  int max_episode_steps_;
  std::size_t obs_size_;
  VectorStep out_;
};

}  // namespace rl
