#include "apps/rl/envs/wrappers/episode_wrapper.h"

#include <algorithm>

#include <fmt/format.h>

namespace rl {

EpisodeWrapper::EpisodeWrapper(std::unique_ptr<BatchEnv> inner) : EnvWrapper(std::move(inner)), episodes_(size()) {}

void EpisodeWrapper::reset(std::span<const std::uint64_t> seeds) {
  inner().reset(seeds);
  std::fill(episodes_.begin(), episodes_.end(), Episode());
  ended_.clear(), returns_.clear(), lengths_.clear();
}

void EpisodeWrapper::reset_one(std::size_t env) {
  if (env >= size())
    troupe::InvalidArgumentError(fmt::format("no environment {} of {} of {}", env, size(), specs().id)).raise();
  begin_one(env);
  episodes_[env] = {};
}

/// BE-4
void EpisodeWrapper::refuse_ended() const {
  const auto at = std::find_if(episodes_.begin(), episodes_.end(), [](const Episode& e) { return e.ended; });
  if (at == episodes_.end()) return;
  troupe::InvalidArgumentError(
      fmt::format("environment {} of {} has ended: reset it", at - episodes_.begin(), specs().id))
      .raise();
}

void EpisodeWrapper::step(ConstRows actions, const StepOut& out) {
  refuse_ended();
  inner().step(actions, out);
  ended_.clear(), returns_.clear(), lengths_.clear();
  if (inner().ends().final_obs.rows() > 0 || !only_faults_reset(out.is_reset, inner().faults()))  // EPW-1
    troupe::InvalidArgumentError(fmt::format("{} resets itself; this wrapper needs AutoReset::kDisabled", specs().id))
        .raise();
  for (std::size_t i = 0; i < size(); ++i) {
    Episode& episode = episodes_[i];
    if (out.is_reset[i] != 0) {
      broken_off(i);
      episode = {};
      continue;
    }
    ++episode.length;
    episode.episode_return += out.reward[i];
    judge(i, episode.length, out);
    episode.ended = out.terminated[i] != 0 || out.truncated[i] != 0;
    if (!episode.ended) continue;
    ended_.push_back(static_cast<std::uint32_t>(i));
    returns_.push_back(episode.episode_return);
    lengths_.push_back(episode.length);
  }
}

}  // namespace rl
