#include "apps/rl/loops/search_loop.h"

#include <utility>

#include "apps/rl/config/runner_options.h"
#include "apps/rl/loops/waits.h"

namespace rl {

SearchLoop::SearchLoop(const RunConfig& config, const Task& task, const std::optional<ResumePoint>& resumed)
    : config_(config),
      moments_(resumed ? resumed->moments : task.moments),
      updates_(resumed ? resumed->state.learner.get_one<std::int64_t>("updates") : 0) {
  learner_ = troupe::actor<LearnerActor>.options(learner_options(config)).remote(
      config, task.policy, resumed ? std::optional(resumed->state.learner) : std::nullopt);
  const auto restartable = troupe::actor<PerturbationActor>.options(runner_options());
  for (std::size_t i = 0; i < config.num_workers; ++i)
    runners_.push_back(restartable.remote(perturbation_runner_options(config, std::get<PolicySpec>(task.policy))));
}

Round SearchLoop::round() {
  if (!params_) params_ = troupe::get(learner_.call<&LearnerActor::publish>());
  if (!open_) begin();
  return end();
}

void SearchLoop::begin() {
  std::vector<troupe::ObjectRef<SampleBatch>> batches;
  Open open;
  const std::uint64_t directions = config_.ars.directions, runners = runners_.size();
  for (std::uint64_t i = 0; i < runners; ++i) {
    const auto first = static_cast<std::uint32_t>(directions * i / runners);
    const auto end = static_cast<std::uint32_t>(directions * (i + 1) / runners);
    if (first == end) continue;
    auto [batch, report] = runners_[i].call<&PerturbationActor::play>(
        *params_, PerturbationOrder{.update = updates_, .first = first, .count = end - first}, moments_);
    batches.push_back(batch);
    open.reports.push_back(report);
  }
  open.update = learner_.call<&LearnerActor::update>(batches);
  open_ = std::move(open);
}

Round SearchLoop::end() {
  std::vector<RolloutReport> reports = troupe::get(open_->reports);
  UpdateReply reply = troupe::get(open_->update);
  open_.reset();
  Round round{.ended = {}, .num_envs = 1, .horizon = 0, .update = {}};
  std::vector<EpisodeEnd> ended;  // one episode after the other, as if one environment had played them all
  for (RolloutReport& report : reports) {
    const auto before = static_cast<std::uint32_t>(round.horizon);
    for (EpisodeEnd episode : report.episodes) {
      episode.step += before;
      round.horizon = episode.step + 1;
      ended.push_back(episode);
    }
    report.episodes.clear();
    add_report(std::move(report), moments_, round);
  }
  round.ended.assign(1, std::move(ended));
  round.update = std::move(reply.report);
  params_ = reply.params;
  ++updates_;
  return round;
}

Weights SearchLoop::weights() {
  if (!params_) params_ = troupe::get(learner_.call<&LearnerActor::publish>());
  return {.params = fetch(*params_), .moments = moments_};
}

troupe::Result<AlgorithmState> SearchLoop::save(const SaveOptions& options) {
  auto learner = troupe::try_get(learner_.call<&LearnerActor::save>(), {.timeout = options.deadline});
  if (!learner.ok()) return learner.error_ptr();
  return AlgorithmState{.learner = std::move(*learner), .parts = {}};
}

}  // namespace rl
