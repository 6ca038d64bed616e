#include "apps/rl/training/training_log.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "apps/rl/training/statistics.h"

namespace rl {

namespace {

template <class T>
double mean_of(const std::vector<T>& numbers) {
  if (numbers.empty()) return 0;
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

template <class T>
void push_into_window(std::vector<T>& window, T value) {
  if (window.size() == kReturnWindow) window.erase(window.begin());
  window.push_back(value);
}

}  // namespace

double TrainingLog::mean_return() const { return mean_of(recent); }
double TrainingLog::mean_length() const { return mean_of(recent_lengths); }

double TrainingLog::interquartile_mean_return() const {
  if (recent.empty()) return 0;
  const ScoreMatrix scores{.runs = recent.size(), .tasks = 1, .values = {recent.begin(), recent.end()}};
  return aggregate(Aggregate::kInterquartileMean, scores);
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
    push_into_window(recent, episode.episode_return);
    push_into_window(recent_lengths, episode.length);
    if (!solved() && threshold && recent.size() == kReturnWindow && mean_return() >= *threshold) {
      solved_steps = steps + envs * (episode.step + 1);
      solved_seconds = seconds_now;
    }
  }
  steps += envs * static_cast<std::int64_t>(horizon);
  ++updates;
  seconds = seconds_now;
  if (!recent.empty() && (curve.empty() || steps - curve.back().steps >= point_every))
    curve.push_back({.steps = steps, .mean_return = static_cast<float>(mean_return())});
}

void TrainingLog::add(const UpdateReport& report) {
  if (report.metrics.empty()) return;  // LRN-5
  if (metrics.empty()) {
    for (const Metric& metric : report.metrics) metrics.push_back(metric.name);
  }
  if (!learning.empty() && steps - learning.back().steps < point_every) return;
  UpdatePoint point{.steps = steps};
  for (const std::string& name : metrics) {
    const auto at = std::ranges::find(report.metrics, name, &Metric::name);
    point.values.push_back(at == report.metrics.end() ? 0.0f : static_cast<float>(at->value));
  }
  learning.push_back(std::move(point));
}

std::optional<double> TrainingLog::last(std::string_view metric) const {
  const auto at = std::ranges::find(metrics, metric);
  if (learning.empty() || at == metrics.end()) return std::nullopt;
  return learning.back().values[static_cast<std::size_t>(at - metrics.begin())];
}

}  // namespace rl
