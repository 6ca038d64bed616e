#include "apps/rl/training/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "apps/rl/algorithms/rng.h"

namespace rl {
namespace {

double average(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> task_means(const ScoreMatrix& scores) {
  std::vector<double> means(scores.tasks, 0.0);
  for (std::size_t i = 0; i < scores.values.size(); ++i) means[i % scores.tasks] += scores.values[i];
  for (double& mean : means) mean /= static_cast<double>(scores.runs);
  return means;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t upper = values.size() / 2;
  return values.size() % 2 == 1 ? values[upper] : (values[upper - 1] + values[upper]) / 2;
}

double interquartile_mean(std::vector<double> values) {
  const std::size_t cut = values.size() / 4;
  std::ranges::sort(values);
  return average(std::span(values).subspan(cut, values.size() - 2 * cut));
}

double quantile(std::span<const double> sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

bool is_share(double confidence) { return confidence > 0 && confidence < 1; }

// Calls draw() for each place of a resampled matrix, in C order.
template <class Draw>
Estimate estimate_with(Aggregate what, const ScoreMatrix& scores, std::size_t repetitions, double confidence,
                       Draw draw) {
  std::vector<double> seen(repetitions);
  ScoreMatrix resampled = scores;
  for (double& one : seen) {
    for (std::size_t i = 0; i < scores.values.size(); ++i)
      resampled.values[i] = scores.values[draw() * scores.tasks + i % scores.tasks];
    one = aggregate(what, resampled);
  }
  std::ranges::sort(seen);
  return {.value = aggregate(what, scores),
          .low = quantile(seen, (1 - confidence) / 2),
          .high = quantile(seen, (1 + confidence) / 2)};
}

}  // namespace

double aggregate(Aggregate what, const ScoreMatrix& scores) {
  switch (what) {
    case Aggregate::kMean: return average(task_means(scores));
    case Aggregate::kMedian: return median(task_means(scores));
    case Aggregate::kInterquartileMean: return interquartile_mean(scores.values);
  }
  return std::nan("");
}

troupe::Status check_scores(const ScoreMatrix& scores) {
  if (scores.runs == 0 || scores.tasks == 0) return troupe::InvalidArgumentError("no scores");
  if (scores.values.size() != scores.runs * scores.tasks)
    return troupe::InvalidArgumentError(std::to_string(scores.values.size()) + " scores are not " +
                                        std::to_string(scores.runs) + " runs of " + std::to_string(scores.tasks) +
                                        " tasks");
  if (!std::ranges::all_of(scores.values, [](double v) { return std::isfinite(v); }))
    return troupe::InvalidArgumentError("a score is not finite");
  return {};
}

troupe::Result<Estimate> estimate(Aggregate what, const ScoreMatrix& scores, const BootstrapOptions& options) {
  if (const troupe::Status checked = check_scores(scores); !checked.ok()) return checked.error_ptr();
  if (options.repetitions == 0 || !is_share(options.confidence))
    return troupe::InvalidArgumentError("a bootstrap needs repetitions, and a confidence between 0 and 1");
  Generator generator(options.seed);
  const auto runs = static_cast<std::uint32_t>(scores.runs);
  return estimate_with(what, scores, options.repetitions, options.confidence,
                       [&] { return static_cast<std::size_t>(generator.integers(runs)); });
}

troupe::Result<Estimate> estimate_from_draws(Aggregate what, const ScoreMatrix& scores,
                                             std::span<const std::uint32_t> run_of, double confidence) {
  if (const troupe::Status checked = check_scores(scores); !checked.ok()) return checked.error_ptr();
  if (run_of.empty() || run_of.size() % scores.values.size() != 0 || !is_share(confidence))
    return troupe::InvalidArgumentError("a bootstrap needs draws for whole matrices, and a confidence between 0 and 1");
  if (!std::ranges::all_of(run_of, [&](std::uint32_t run) { return run < scores.runs; }))
    return troupe::InvalidArgumentError("a draw names a run that is not there");
  std::size_t next = 0;
  return estimate_with(what, scores, run_of.size() / scores.values.size(), confidence,
                       [&] { return static_cast<std::size_t>(run_of[next++]); });
}

}  // namespace rl
