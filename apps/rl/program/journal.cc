#include "apps/rl/program/journal.h"

#include <chrono>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace rl {
namespace {

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Journal::Journal(const JournalOptions& options, std::function<void(const std::string&)> warn)
    : warn_(std::move(warn)), written_(options.first_step) {
  auto lines = JsonLines::open(options.folder / "progress.jsonl");
  if (lines.ok()) lines_.emplace(std::move(*lines));
  else lost("progress.jsonl", lines.error());
  if (!options.tensorboard) return;
  auto events = apps::tensorboard::EventFile::create(options.folder / "tensorboard", wall_time(),
                                                     {.first_step = options.first_step});
  if (events.ok()) events_.emplace(std::move(*events));
  else lost("TensorBoard's file", events.error());
}

void Journal::add(const TrainingLog& log, double steps_per_second) {
  const std::int64_t last = std::max(log.curve.empty() ? 0 : log.curve.back().steps,
                                     log.learning.empty() ? 0 : log.learning.back().steps);
  if (last <= written_) return;
  written_ = last;
  boost::json::object line{{"steps", log.steps},
                           {"seconds", log.seconds},
                           {"episodes", log.episodes},
                           {"steps_per_second", steps_per_second}};
  std::vector<std::pair<std::string, double>> scalars{{"rollout/episodes", static_cast<double>(log.episodes)},
                                                      {"rollout/steps_per_second", steps_per_second}};
  if (!log.recent.empty()) {
    line["mean_return"] = log.mean_return(), line["mean_length"] = log.mean_length();
    scalars.emplace_back("rollout/mean_return", log.mean_return());
    scalars.emplace_back("rollout/mean_length", log.mean_length());
  }
  for (const std::string& name : log.metrics) {
    const double value = log.last(name).value_or(0);
    line[name] = value;
    scalars.emplace_back("learner/" + name, value);
  }
  this->line(line);
  std::vector<apps::tensorboard::Scalar> views;
  for (const auto& [tag, value] : scalars) views.push_back({.tag = tag, .value = value});
  event(log.steps, views);
}

void Journal::add(const CopyResult& result, bool again) {
  line({{"steps", result.steps}, {"evaluation", result.mean}, {"deviation", result.deviation}, {"again", again}});
  const std::vector<apps::tensorboard::Scalar> scalar{
      {.tag = again ? "evaluation/again" : "evaluation/mean_return", .value = result.mean}};
  event(result.steps, scalar);
}

void Journal::flush() {
  if (!events_) return;
  if (const troupe::Status status = events_->flush(); !status.ok()) lost("TensorBoard's file", status.error());
}

void Journal::line(const boost::json::object& line) {
  if (!lines_) return;
  if (const troupe::Status status = lines_->add(line); !status.ok()) {
    lost("progress.jsonl", status.error());
    lines_.reset();
  }
}

void Journal::event(std::int64_t step, std::span<const apps::tensorboard::Scalar> scalars) {
  if (!events_) return;
  if (const troupe::Status status = events_->add(step, wall_time(), scalars); !status.ok()) {
    lost("TensorBoard's file", status.error());
    events_.reset();
  }
}

void Journal::lost(const char* what, const troupe::Error& error) {
  warn_(fmt::format("{} cannot be written, training goes on without it: {}", what, error.message()));
}

}  // namespace rl
