#include "apps/rl/training/training_log.h"

#include <algorithm>
#include <numeric>

namespace rl {

double TrainingLog::mean_return() const {
  if (recent.empty()) return 0;
  return std::accumulate(recent.begin(), recent.end(), 0.0) / static_cast<double>(recent.size());
}

void TrainingLog::add(std::span<const std::vector<EpisodeEnd>> workers, std::size_t num_envs, std::size_t horizon,
                      double seconds_now) {
  std::vector<EpisodeEnd> ended;
  for (const std::vector<EpisodeEnd>& worker : workers) ended.insert(ended.end(), worker.begin(), worker.end());
  std::stable_sort(ended.begin(), ended.end(),
                   [](const EpisodeEnd& a, const EpisodeEnd& b) { return a.step < b.step; });
  const auto envs = static_cast<std::int64_t>(num_envs * workers.size());
  for (const EpisodeEnd& episode : ended) {
    ++episodes;
    if (recent.size() == kReturnWindow) recent.erase(recent.begin());
    recent.push_back(episode.episode_return);
    if (!solved() && recent.size() == kReturnWindow && mean_return() >= threshold) {
      solved_steps = steps + envs * (episode.step + 1);
      solved_seconds = seconds_now;
    }
  }
  steps += envs * static_cast<std::int64_t>(horizon);
  ++updates;
  seconds = seconds_now;
  if (!recent.empty()) curve.push_back({.steps = steps, .mean_return = static_cast<float>(mean_return())});
}

void TrainingLog::add(const UpdateStats& stats) {
  learning.push_back({.steps = steps,
                      .kl = static_cast<float>(stats.kl),
                      .clip_fraction = static_cast<float>(stats.clip_fraction),
                      .entropy = static_cast<float>(stats.entropy),
                      .learning_rate = static_cast<float>(stats.learning_rate)});
}

}  // namespace rl
