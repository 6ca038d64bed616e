#include "apps/rl/envs/wrappers/time_limit.h"

#include <algorithm>

namespace rl {

troupe::Result<std::unique_ptr<TimeLimit>> TimeLimit::make(std::unique_ptr<BatchEnv> inner, int max_episode_steps) {
  if (max_episode_steps < 1) return troupe::InvalidArgumentError("an episode has at least one step");
  return std::unique_ptr<TimeLimit>(new TimeLimit(std::move(inner), max_episode_steps));
}

TimeLimit::TimeLimit(std::unique_ptr<BatchEnv> inner, int max_episode_steps)
    : EpisodeWrapper(std::move(inner)), max_episode_steps_(max_episode_steps) {
  changed_specs().max_episode_steps =
      std::min(max_episode_steps, specs().max_episode_steps.value_or(max_episode_steps));
}

void TimeLimit::judge(std::size_t env, std::int64_t length, const StepOut& out) {
  if (length >= max_episode_steps_) out.truncated[env] = 1;
}

}  // namespace rl
