// TimeLimit: episodes end after a number of steps, as Gymnasium's TimeLimit: the step that reaches it is truncated,
// terminated or not. A limit inside stays in force: the shorter one is reached first.
//
// One thread at a time. Around what is of AutoReset::kDisabled (episode_wrapper.h).
#pragma once

#include <memory>

#include "apps/rl/envs/wrappers/episode_wrapper.h"

namespace rl {

class TimeLimit final : public EpisodeWrapper {
 public:
  /// InvalidArgumentError when max_episode_steps < 1.
  static troupe::Result<std::unique_ptr<TimeLimit>> make(std::unique_ptr<BatchEnv> inner, int max_episode_steps);

 private:
  TimeLimit(std::unique_ptr<BatchEnv> inner, int max_episode_steps);
  void judge(std::size_t env, std::int64_t length, const StepOut& out) override;

  int max_episode_steps_;
};

}  // namespace rl
